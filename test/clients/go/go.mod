module parhelion.example/flows

go 1.22

require (
	github.com/blocto/solana-go-sdk v1.30.0
	github.com/gagliardetto/solana-go v1.14.0
)
