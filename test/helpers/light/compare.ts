import assert from 'node:assert/strict';
import {
  bn,
  type CompressedAccountWithMerkleContext,
  type ParsedTokenAccount,
  type Rpc,
  type TestRpc,
  TreeType,
} from '@lightprotocol/stateless.js';
import type { PublicKey } from '@solana/web3.js';
import { asFromChain, plainAccount, plainProof, plainValidity, sortedAccounts, sortedTokens } from './plain.ts';

type Account = CompressedAccountWithMerkleContext;

const MAX_PROVED_TOGETHER = 4;
const INITIALIZED = 1;

/** What is the same everywhere: the daemon, asked by the client library, and the library's own indexer. */
export interface Pair {
  readonly ours: Rpc;
  readonly oracle: TestRpc;
}

/** Fails where the two differ in any field of any account of these owners. Answers how many accounts there are. */
export async function compareLamports({ ours, oracle }: Pair, owners: readonly PublicKey[]): Promise<number> {
  const all: Account[] = [];
  for (const owner of owners) {
    const { items, cursor } = await ours.getCompressedAccountsByOwner(owner);
    const truth = await oracle.getCompressedAccountsByOwner(owner);
    assert.deepEqual(sortedAccounts(items), sortedAccounts(truth.items));
    assert.equal(cursor, null);
    assert.equal(
      `${await ours.getCompressedBalanceByOwner(owner)}`,
      `${await oracle.getCompressedBalanceByOwner(owner)}`,
    );
    all.push(...items);
  }
  await compareByHash({ ours, oracle }, all);
  return all.length;
}

/** Like `compareLamports`, for the tokens of a mint and their owners. */
export async function compareTokens(
  { ours, oracle }: Pair,
  mint: PublicKey,
  owners: readonly PublicKey[],
): Promise<number> {
  const all: Account[] = [];
  const holders = new Map<string, bigint>();
  for (const owner of owners) {
    const items = turned(await ours.getCompressedTokenAccountsByOwner(owner, { mint }));
    const truth = await oracle.getCompressedTokenAccountsByOwner(owner, { mint });
    assert.deepEqual(sortedTokens(items), sortedTokens(truth.items));
    assert.ok(items.every(({ parsed }) => parsed.state === INITIALIZED));
    const delegated = await ours.getCompressedTokenAccountsByDelegate(owner, { mint });
    const delegatedTruth = await oracle.getCompressedTokenAccountsByDelegate(owner, { mint });
    assert.deepEqual(sortedTokens(turned(delegated)), sortedTokens(delegatedTruth.items));
    const total = truth.items.reduce((sum, { parsed }) => sum + BigInt(parsed.amount.toString()), 0n);
    const { value } = await ours.getCompressedTokenBalancesByOwnerV2(owner, { mint });
    assert.deepEqual(
      value.items.map((item) => `${item.mint} ${item.balance}`),
      total > 0n ? [`${mint} ${total}`] : [],
    );
    if (total > 0n) holders.set(owner.toBase58(), total);
    for (const { compressedAccount, parsed } of items) {
      const { amount } = await ours.getCompressedTokenAccountBalance(bn(compressedAccount.hash));
      assert.equal(amount.toString(), parsed.amount.toString());
      all.push(compressedAccount);
    }
  }
  const { value } = await ours.getCompressedMintTokenHolders(mint);
  const listed = new Map(value.items.map(({ owner, balance }) => [owner.toBase58(), BigInt(balance.toString())]));
  assert.deepEqual(listed, new Map([...holders].sort(([, one], [, other]) => (one > other ? -1 : 1))));
  await compareByHash({ ours, oracle }, all);
  return all.length;
}

const turned = ({ items }: { readonly items: readonly ParsedTokenAccount[] }) =>
  items.map((item) => ({ ...item, compressedAccount: asFromChain(item.compressedAccount) }));

/** Accounts, proofs and prepared validity proofs, asked by hash. */
async function compareByHash({ ours, oracle }: Pair, accounts: readonly Account[]): Promise<void> {
  for (const type of [TreeType.StateV1, TreeType.StateV2]) {
    const some = accounts.filter(({ treeInfo }) => treeInfo.treeType === type);
    if (some.length === 0) continue;
    const hashes = some.map(({ hash }) => bn(hash));
    const [proofs, truth] = [
      await ours.getMultipleCompressedAccountProofs(hashes),
      await oracle.getMultipleCompressedAccountProofs(hashes),
    ];
    assert.deepEqual(proofs.map(plainProof), truth.map(plainProof));
    assert.deepEqual(
      sortedAccounts((await ours.getMultipleCompressedAccounts(hashes)).map(asFromChain)),
      sortedAccounts(some),
    );
    const [first] = some as [Account];
    const single = await ours.getCompressedAccount(undefined, bn(first.hash));
    assert.deepEqual(single && plainAccount(asFromChain(single)), plainAccount(first));
    // Proofs of V1 trees need a prover.
    if (type === TreeType.StateV1) continue;
    const few = hashes.slice(0, MAX_PROVED_TOGETHER);
    assert.deepEqual(
      plainValidity(await ours.getValidityProof(few)),
      plainValidity(await oracle.getValidityProof(few)),
    );
  }
}
