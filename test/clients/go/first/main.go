package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/gagliardetto/solana-go"
	"github.com/gagliardetto/solana-go/rpc"
	"github.com/gagliardetto/solana-go/rpc/ws"
)

func main() {
	ctx := context.Background()
	client := rpc.New(os.Getenv("PARHELION_URL")) // http://127.0.0.1:8787/?api-key=KEY
	slot, err := client.GetSlot(ctx, rpc.CommitmentConfirmed)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("slot", slot)

	wallet := solana.MustPublicKeyFromBase58("11111111111111111111111111111111")
	balance, err := client.GetBalance(ctx, wallet, rpc.CommitmentConfirmed)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("lamports", balance.Value)

	socket, err := ws.Connect(ctx, os.Getenv("PARHELION_WS")) // ws://127.0.0.1:8788/?api-key=KEY
	if err != nil {
		log.Fatal(err)
	}
	defer socket.Close()
	subscription, err := socket.SlotSubscribe()
	if err != nil {
		log.Fatal(err)
	}
	notification, err := subscription.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("notified of slot", notification.Slot)
}
