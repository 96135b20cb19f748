module story

go 1.26
