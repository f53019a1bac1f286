module cay.test/kubectl

go 1.26
