// Command flows calls a daemon with the SDK for Go. PARHELION_ACCOUNT is an account with more lamports than a double holds.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"time"

	parhelion "parhelion/sdk"
)

var (
	ctx     = context.Background()
	base    = os.Getenv("PARHELION_BASE")
	key     = os.Getenv("PARHELION_KEY")
	account = os.Getenv("PARHELION_ACCOUNT")
	client  = parhelion.New(base, key)
)

const lamports = 9_007_199_254_740_993

func must(holds bool, what string, seen any) {
	if !holds {
		panic(fmt.Sprintf("%s: %v", what, seen))
	}
}

func ok[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// refusal is the error of a call that has to fail with this kind, status and code.
func refusal(err error, kind parhelion.Kind, status int, code int64) *parhelion.Error {
	var failure *parhelion.Error
	must(errors.As(err, &failure), "no refusal", err)
	must(failure.Kind == kind && failure.Status == status && failure.Code == code, "another refusal", *failure)
	return failure
}

func failed[T any](_ T, err error) error { return err }

func routes() {
	query := parhelion.GetWalletBalancesQuery{Limit: parhelion.Ptr[uint64](10), ShowNative: parhelion.Ptr(true)}
	balances := ok(client.GetWalletBalances(ctx, account, query)).Balances
	must(len(balances) == 1 && balances[0].Symbol != nil && *balances[0].Symbol == "SOL", "balances", balances)
	must(ok(client.GetPing(ctx)) != "", "ping", "")
	made := ok(client.PostWebhooks(ctx, parhelion.NewWebhook{
		WebhookURL: "https://example.org/hook", WebhookType: parhelion.Ptr("raw"), AccountAddresses: []string{account},
	}))
	changed := ok(client.PutWebhook(ctx, made.WebhookID, parhelion.WebhookChange{Name: parhelion.Ptr("Größe")}))
	must(changed.Name != nil && *changed.Name == "Größe", "name", changed.Name)
	page := ok(client.GetWebhookDeliveries(ctx, made.WebhookID, parhelion.GetWebhookDeliveriesQuery{}))
	must(len(page.Data) == 0, "deliveries", page)
	if err := client.DeleteWebhook(ctx, made.WebhookID); err != nil {
		panic(err)
	}
	failure := refusal(failed(client.GetWebhook(ctx, made.WebhookID)), parhelion.KindHTTP, 404, 0)
	must(failure.Message == "webhook not found" && failure.RequestID != "", "refusal", *failure)
}

func methods() {
	options := parhelion.GetBalanceOptions{Commitment: parhelion.Ptr("confirmed")}
	balance := ok(client.RPC.GetBalance(ctx, account, &options))
	must(balance.Value == lamports, "lamports", balance.Value)
	info := ok(client.RPC.GetAccountInfo(ctx, account, nil))
	must(info.Value != nil && info.Value.RentEpoch == math.MaxUint64, "rent epoch", info.Value)
	fee := ok(client.RPC.GetPriorityFeeEstimate(ctx, parhelion.GetPriorityFeeEstimateRequest{AccountKeys: []string{account}}))
	must(fee.PriorityFeeEstimate != nil, "fee", fee)
	limit := parhelion.Ptr[uint64](5)
	assets := ok(client.RPC.GetAssetsByOwner(ctx, parhelion.GetAssetsByOwnerParams{OwnerAddress: account, Limit: limit}))
	must(assets.Limit == 5, "assets", assets)
	slot := ok(client.RPC.GetSlot(ctx, nil))
	must(ok(client.RPC.GetBlockTime(ctx, slot)) != nil, "time", slot)
	must(ok(parhelion.Call[string](ctx, client, "getGenesisHash", nil)) != "", "genesis", "")
}

func failures() {
	refusal(failed(client.RPC.GetAsset(ctx, parhelion.GetAssetParams{Id: "x"})), parhelion.KindRPC, 200, -32602)
	refusal(failed(parhelion.Call[any](ctx, client, "noSuchMethod", nil)), parhelion.KindRPC, 200, -32601)
	wrong := parhelion.New(base, "wrong")
	failure := refusal(failed(wrong.GetWebhooks(ctx)), parhelion.KindHTTP, 401, 0)
	must(failure.Message == "Invalid API key", "refusal", *failure)
	refusal(failed(wrong.RPC.GetSlot(ctx, nil)), parhelion.KindRPC, 401, -32001)
}

func limits() {
	silent := ok(net.Listen("tcp", "127.0.0.1:0"))
	defer silent.Close()
	slow := parhelion.New("http://"+silent.Addr().String()+"/", key)
	slow.HTTP = &http.Client{Timeout: 100 * time.Millisecond}
	refusal(failed(slow.RPC.GetSlot(ctx, nil)), parhelion.KindTimeout, 0, 0)
	refusal(failed(parhelion.New("http://127.0.0.1:9", key).GetPing(ctx)), parhelion.KindConnection, 0, 0)
}

func main() {
	code := 0
	for _, flow := range []struct {
		name string
		run  func()
	}{{"routes", routes}, {"methods", methods}, {"errors", failures}, {"limits", limits}} {
		func() {
			defer func() {
				if reason := recover(); reason != nil {
					fmt.Printf("not ok %s: %v\n", flow.name, reason)
					code = 1
					return
				}
				fmt.Printf("ok %s\n", flow.name)
			}()
			flow.run()
		}()
	}
	os.Exit(code)
}
