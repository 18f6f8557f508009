package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	parhelion "parhelion/sdk"
)

func main() {
	ctx := context.Background()
	client := parhelion.New(os.Getenv("PARHELION_BASE"), os.Getenv("PARHELION_KEY")) // http://127.0.0.1:8787 and KEY
	wallet := "11111111111111111111111111111111"

	slot, err := client.RPC.GetSlot(ctx, nil) // a method of JSON-RPC
	if err != nil {
		panic(err)
	}
	fmt.Println("slot", slot)

	query := parhelion.GetWalletBalancesQuery{Limit: parhelion.Ptr[uint64](10)}
	answer, err := client.GetWalletBalances(ctx, wallet, query) // a route
	if err != nil {
		panic(err)
	}
	fmt.Println("rows", len(answer.Balances))

	_, err = client.GetWebhook(ctx, "5e1a3c1e-4f0b-4b6f-9d55-0c8a2f6f7d11")
	var failure *parhelion.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Kind, failure.Status, failure.Message) // http 404 webhook not found
	}
}
