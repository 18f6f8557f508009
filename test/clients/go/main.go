// Command flows calls a daemon with gagliardetto/solana-go and blocto/solana-go-sdk.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"time"

	blocto "github.com/blocto/solana-go-sdk/client"
	bloctorpc "github.com/blocto/solana-go-sdk/rpc"
	"github.com/gagliardetto/solana-go"
	ata "github.com/gagliardetto/solana-go/programs/associated-token-account"
	"github.com/gagliardetto/solana-go/programs/system"
	"github.com/gagliardetto/solana-go/programs/token"
	"github.com/gagliardetto/solana-go/rpc"
	"github.com/gagliardetto/solana-go/rpc/ws"
)

var (
	ctx    = context.Background()
	client = rpc.New(os.Getenv("PARHELION_URL"))
	wsURL  = os.Getenv("PARHELION_WS")
	payer  = solana.NewWallet().PrivateKey
)

// flow runs one step and prints its outcome in a line.
func flow(name string, step func() error) bool {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if reason := recover(); reason != nil {
				done <- fmt.Errorf("panic: %v", reason)
			}
		}()
		done <- step()
	}()
	var err error
	select {
	case err = <-done:
	case <-time.After(90 * time.Second):
		err = fmt.Errorf("no answer in 90 s")
	}
	if err != nil {
		text := strings.Join(strings.Fields(err.Error()), " ")
		fmt.Printf("not ok %s: %.400s\n", name, text)
		return false
	}
	fmt.Printf("ok %s\n", name)
	return true
}

// ask is a flow of a call whose answer only has to decode.
func ask[T any](name string, call func() (T, error)) {
	flow("solana-go "+name, func() error { _, err := call(); return err })
}

func send(instructions []solana.Instruction, signers ...solana.PrivateKey) (solana.Signature, error) {
	latest, err := client.GetLatestBlockhash(ctx, rpc.CommitmentConfirmed)
	if err != nil {
		return solana.Signature{}, err
	}
	transaction, err := solana.NewTransaction(instructions, latest.Value.Blockhash, solana.TransactionPayer(payer.PublicKey()))
	if err != nil {
		return solana.Signature{}, err
	}
	keys := append([]solana.PrivateKey{payer}, signers...)
	_, err = transaction.Sign(func(key solana.PublicKey) *solana.PrivateKey {
		for index := range keys {
			if keys[index].PublicKey() == key {
				return &keys[index]
			}
		}
		return nil
	})
	if err != nil {
		return solana.Signature{}, err
	}
	signature, err := client.SendTransactionWithOpts(ctx, transaction, rpc.TransactionOpts{PreflightCommitment: rpc.CommitmentConfirmed})
	if err != nil {
		return signature, err
	}
	return signature, confirmed(signature)
}

func confirmed(signature solana.Signature) error {
	for tries := 0; tries < 200; tries++ {
		statuses, err := client.GetSignatureStatuses(ctx, false, signature)
		if err == nil && statuses.Value[0] != nil && statuses.Value[0].ConfirmationStatus != rpc.ConfirmationStatusProcessed {
			if statuses.Value[0].Err != nil {
				return fmt.Errorf("failed: %v", statuses.Value[0].Err)
			}
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("%s was not confirmed", signature)
}

// soon bounds a wait: this client never returns from a subscription that was refused.
func soon() context.Context {
	within, cancel := context.WithTimeout(ctx, 20*time.Second)
	time.AfterFunc(20*time.Second, cancel)
	return within
}

func airdrop() error {
	signature, err := client.RequestAirdrop(ctx, payer.PublicKey(), 5_000_000_000, rpc.CommitmentConfirmed)
	if err != nil {
		return err
	}
	return confirmed(signature)
}

// createMint makes a mint of two decimals with 1,000 units of it in the payer's associated account.
func createMint() (mint, account solana.PublicKey, err error) {
	key := solana.NewWallet().PrivateKey
	mint = key.PublicKey()
	account, _, err = solana.FindAssociatedTokenAddress(payer.PublicKey(), mint)
	if err != nil {
		return
	}
	rent, err := client.GetMinimumBalanceForRentExemption(ctx, 82, rpc.CommitmentConfirmed)
	if err != nil {
		return
	}
	owner := payer.PublicKey()
	_, err = send([]solana.Instruction{
		system.NewCreateAccountInstruction(rent, 82, token.ProgramID, owner, mint).Build(),
		token.NewInitializeMint2Instruction(2, owner, owner, mint).Build(),
		ata.NewCreateInstruction(owner, owner, mint).Build(),
		token.NewMintToInstruction(1_000, mint, account, owner, nil).Build(),
	}, key)
	return
}

func methods(mint, account solana.PublicKey, signature solana.Signature) {
	owner := payer.PublicKey()
	slot, err := client.GetSlot(ctx, rpc.CommitmentConfirmed)
	if err != nil {
		return
	}
	end := slot
	maxVersion := uint64(0)
	ask("GetAccountInfo", func() (any, error) {
		return client.GetAccountInfoWithOpts(ctx, owner, &rpc.GetAccountInfoOpts{Commitment: rpc.CommitmentConfirmed})
	})
	ask("GetBalance", func() (any, error) { return client.GetBalance(ctx, owner, rpc.CommitmentConfirmed) })
	ask("GetBlockCommitment", func() (any, error) { return client.GetBlockCommitment(ctx, slot) })
	ask("GetBlockHeight", func() (any, error) { return client.GetBlockHeight(ctx, rpc.CommitmentConfirmed) })
	ask("GetBlockProduction", func() (any, error) { return client.GetBlockProduction(ctx) })
	ask("GetBlockTime", func() (any, error) { return client.GetBlockTime(ctx, slot) })
	ask("GetBlocks", func() (any, error) { return client.GetBlocks(ctx, slot-3, &end, rpc.CommitmentConfirmed) })
	ask("GetBlocksWithLimit", func() (any, error) { return client.GetBlocksWithLimit(ctx, slot-3, 2, rpc.CommitmentConfirmed) })
	ask("GetClusterNodes", func() (any, error) { return client.GetClusterNodes(ctx) })
	ask("GetEpochInfo", func() (any, error) { return client.GetEpochInfo(ctx, rpc.CommitmentConfirmed) })
	ask("GetEpochSchedule", func() (any, error) { return client.GetEpochSchedule(ctx) })
	ask("GetFirstAvailableBlock", func() (any, error) { return client.GetFirstAvailableBlock(ctx) })
	ask("GetGenesisHash", func() (any, error) { return client.GetGenesisHash(ctx) })
	ask("GetHealth", func() (any, error) { return client.GetHealth(ctx) })
	ask("GetHighestSnapshotSlot", func() (any, error) { return client.GetHighestSnapshotSlot(ctx) })
	ask("GetIdentity", func() (any, error) { return client.GetIdentity(ctx) })
	ask("GetInflationGovernor", func() (any, error) { return client.GetInflationGovernor(ctx, rpc.CommitmentConfirmed) })
	ask("GetInflationRate", func() (any, error) { return client.GetInflationRate(ctx) })
	ask("GetLargestAccounts", func() (any, error) {
		return client.GetLargestAccounts(ctx, rpc.CommitmentConfirmed, rpc.LargestAccountsFilterCirculating)
	})
	ask("GetLeaderSchedule", func() (any, error) { return client.GetLeaderSchedule(ctx) })
	ask("GetMaxRetransmitSlot", func() (any, error) { return client.GetMaxRetransmitSlot(ctx) })
	ask("GetMaxShredInsertSlot", func() (any, error) { return client.GetMaxShredInsertSlot(ctx) })
	ask("GetMultipleAccounts", func() (any, error) { return client.GetMultipleAccounts(ctx, owner, mint) })
	ask("GetParsedTransaction", func() (any, error) {
		return client.GetParsedTransaction(ctx, signature, &rpc.GetParsedTransactionOpts{Commitment: rpc.CommitmentConfirmed, MaxSupportedTransactionVersion: &maxVersion})
	})
	ask("GetProgramAccounts", func() (any, error) {
		return client.GetProgramAccountsWithOpts(ctx, token.ProgramID, &rpc.GetProgramAccountsOpts{Commitment: rpc.CommitmentConfirmed, Encoding: solana.EncodingBase64Zstd})
	})
	ask("GetRecentPerformanceSamples", func() (any, error) { return client.GetRecentPerformanceSamples(ctx, nil) })
	ask("GetRecentPrioritizationFees", func() (any, error) {
		return client.GetRecentPrioritizationFees(ctx, solana.PublicKeySlice{owner})
	})
	ask("GetSignaturesForAddress", func() (any, error) { return client.GetSignaturesForAddress(ctx, owner) })
	ask("GetSlotLeader", func() (any, error) { return client.GetSlotLeader(ctx, rpc.CommitmentConfirmed) })
	ask("GetSlotLeaders", func() (any, error) { return client.GetSlotLeaders(ctx, slot, 3) })
	ask("GetSupply", func() (any, error) { return client.GetSupply(ctx, rpc.CommitmentConfirmed) })
	ask("GetTokenAccountBalance", func() (any, error) { return client.GetTokenAccountBalance(ctx, account, rpc.CommitmentConfirmed) })
	ask("GetTokenAccountsByOwner", func() (any, error) {
		return client.GetTokenAccountsByOwner(ctx, owner, &rpc.GetTokenAccountsConfig{Mint: &mint}, &rpc.GetTokenAccountsOpts{Commitment: rpc.CommitmentConfirmed, Encoding: solana.EncodingBase64Zstd})
	})
	ask("GetTokenLargestAccounts", func() (any, error) { return client.GetTokenLargestAccounts(ctx, mint, rpc.CommitmentConfirmed) })
	ask("GetTokenSupply", func() (any, error) { return client.GetTokenSupply(ctx, mint, rpc.CommitmentConfirmed) })
	ask("GetTransactionCount", func() (any, error) { return client.GetTransactionCount(ctx, rpc.CommitmentConfirmed) })
	ask("GetVersion", func() (any, error) { return client.GetVersion(ctx) })
	ask("GetVoteAccounts", func() (any, error) { return client.GetVoteAccounts(ctx, nil) })
	ask("MinimumLedgerSlot", func() (any, error) { return client.MinimumLedgerSlot(ctx) })
	for _, encoding := range []solana.EncodingType{solana.EncodingBase58, solana.EncodingBase64} {
		ask("GetBlock "+string(encoding), func() (any, error) {
			return client.GetBlockWithOpts(ctx, slot, &rpc.GetBlockOpts{Encoding: encoding, Commitment: rpc.CommitmentConfirmed, MaxSupportedTransactionVersion: &maxVersion})
		})
	}
}

// zstdAccount compares the bytes of an account in both binary encodings.
func zstdAccount(mint solana.PublicKey) error {
	var texts []string
	for _, encoding := range []solana.EncodingType{solana.EncodingBase64, solana.EncodingBase64Zstd} {
		found, err := client.GetAccountInfoWithOpts(ctx, mint, &rpc.GetAccountInfoOpts{Encoding: encoding, Commitment: rpc.CommitmentConfirmed})
		if err != nil {
			return err
		}
		texts = append(texts, fmt.Sprint(found.GetBinary()))
	}
	if texts[0] != texts[1] {
		return fmt.Errorf("other bytes: %.60s, %.60s", texts[0], texts[1])
	}
	return nil
}

// counts checks that each commitment has a count of its own.
func counts() error {
	processed, err := client.GetTransactionCount(ctx, rpc.CommitmentProcessed)
	if err != nil {
		return err
	}
	if _, err = send([]solana.Instruction{system.NewTransferInstruction(1, payer.PublicKey(), payer.PublicKey()).Build()}); err != nil {
		return err
	}
	later, err := client.GetTransactionCount(ctx, rpc.CommitmentProcessed)
	if err == nil && later <= processed {
		err = fmt.Errorf("%d, then %d", processed, later)
	}
	return err
}

func subscriptions() {
	socket, err := ws.Connect(ctx, wsURL)
	if !flow("solana-go ws connect", func() error { return err }) {
		return
	}
	defer socket.Close()
	pay := func() error {
		target := solana.NewWallet().PublicKey()
		_, err := send([]solana.Instruction{system.NewTransferInstruction(1_500_000, payer.PublicKey(), target).Build()})
		return err
	}
	flow("solana-go ws slot", func() error {
		subscription, err := socket.SlotSubscribe()
		if err != nil {
			return err
		}
		defer subscription.Unsubscribe()
		_, err = subscription.Recv(soon())
		return err
	})
	for _, encoding := range []solana.EncodingType{solana.EncodingBase64, solana.EncodingBase64Zstd, solana.EncodingJSONParsed} {
		flow("solana-go ws account "+string(encoding), func() error {
			subscription, err := socket.AccountSubscribeWithOpts(payer.PublicKey(), rpc.CommitmentConfirmed, encoding)
			if err != nil {
				return err
			}
			defer subscription.Unsubscribe()
			if err = pay(); err != nil {
				return err
			}
			_, err = subscription.Recv(soon())
			return err
		})
	}
	flow("solana-go ws logs", func() error {
		subscription, err := socket.LogsSubscribeMentions(payer.PublicKey(), rpc.CommitmentConfirmed)
		if err != nil {
			return err
		}
		defer subscription.Unsubscribe()
		if err = pay(); err != nil {
			return err
		}
		_, err = subscription.Recv(soon())
		return err
	})
	flow("solana-go ws program", func() error {
		subscription, err := socket.ProgramSubscribeWithOpts(solana.SystemProgramID, rpc.CommitmentConfirmed, solana.EncodingBase64, nil)
		if err != nil {
			return err
		}
		defer subscription.Unsubscribe()
		if err = pay(); err != nil {
			return err
		}
		_, err = subscription.Recv(soon())
		return err
	})
	flow("solana-go ws clock of every slot", func() error {
		subscription, err := socket.AccountSubscribeWithOpts(solana.SysVarClockPubkey, rpc.CommitmentProcessed, solana.EncodingBase64)
		if err != nil {
			return err
		}
		defer subscription.Unsubscribe()
		last := uint64(0)
		for count := 0; count < 4; count++ {
			found, err := subscription.Recv(soon())
			if err != nil {
				return err
			}
			if slot := binary.LittleEndian.Uint64(found.Value.Data.GetBinary()); last != 0 && slot != last+1 {
				return fmt.Errorf("slot %d after %d", slot, last)
			} else {
				last = slot
			}
		}
		return nil
	})
}

func bloctoFlows(mint solana.PublicKey) {
	other := blocto.NewClient(os.Getenv("PARHELION_URL"))
	plain := bloctorpc.NewRpcClient(os.Getenv("PARHELION_URL"))
	flow("blocto GetMultipleAccounts", func() error {
		_, err := other.GetMultipleAccounts(ctx, []string{payer.PublicKey().String(), mint.String()})
		return err
	})
	flow("blocto GetMultipleAccounts, raw", func() error {
		found, err := plain.GetMultipleAccounts(ctx, []string{mint.String()})
		if err == nil && found.Error != nil {
			err = found.Error
		}
		return err
	})
	flow("blocto GetAccountInfo base64+zstd", func() error {
		config := bloctorpc.GetAccountInfoConfig{Encoding: "base64+zstd", Commitment: bloctorpc.CommitmentConfirmed}
		found, err := plain.GetAccountInfoWithConfig(ctx, mint.String(), config)
		if err == nil && found.Error != nil {
			err = found.Error
		}
		return err
	})
	flow("blocto GetSlotLeaders", func() error {
		slot, err := other.GetSlot(ctx)
		if err == nil {
			_, err = other.GetSlotLeaders(ctx, slot, 2)
		}
		return err
	})
	flow("blocto GetBalance", func() error { _, err := other.GetBalance(ctx, payer.PublicKey().String()); return err })
}

func main() {
	if !flow("airdrop", airdrop) {
		os.Exit(1)
	}
	var mint, account solana.PublicKey
	if !flow("create mint", func() (err error) { mint, account, err = createMint(); return }) {
		os.Exit(1)
	}
	var signature solana.Signature
	flow("send and confirm", func() (err error) {
		signature, err = send([]solana.Instruction{system.NewTransferInstruction(2_000_000, payer.PublicKey(), solana.NewWallet().PublicKey()).Build()})
		return
	})
	methods(mint, account, signature)
	flow("solana-go account in base64+zstd", func() error { return zstdAccount(mint) })
	flow("solana-go transaction count moves", counts)
	subscriptions()
	bloctoFlows(mint)
}
