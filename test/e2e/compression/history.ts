import assert from 'node:assert/strict';
import type { Landed } from '../../helpers/light/sender.ts';
import type { LightBed } from './harness.ts';

const PAGE = 17;

type Signature = { readonly signature: string; readonly slot: number; readonly error?: string | null };
type Page = { readonly value: { readonly items: readonly Signature[]; readonly cursor: string | null } };

/** Signatures and transactions returned by the daemon match those sent: each once, newest first, in pages too, without failures. */
export async function checkHistory(
  { call, rpc }: Pick<LightBed, 'call' | 'rpc'>,
  landed: readonly Landed[],
): Promise<void> {
  const done = landed.filter(({ failed }) => !failed).map(({ signature }) => signature);
  const found: Signature[] = [];
  let cursor: string | null = null;
  do {
    const { value }: Page = await call<Page>('getLatestCompressionSignatures', { limit: PAGE, cursor });
    found.push(...value.items);
    cursor = value.cursor;
  } while (cursor !== null);
  // One transaction in each block: the order is the chain's.
  assert.deepEqual(
    found.map(({ signature }) => signature),
    done.toReversed(),
  );
  const all = (await call<Page>('getLatestNonVotingSignatures', {})).value.items;
  for (const { signature, failed } of landed) {
    const known = all.find((item) => item.signature === signature);
    assert.equal(known?.error === null, !failed, JSON.stringify(known));
  }
  for (const signature of done.slice(-PAGE)) await checkTransaction(rpc, signature);
}

/** What a transaction opened and closed, as the client library reads it; each account knows the transaction too. */
async function checkTransaction(rpc: LightBed['rpc'], signature: string): Promise<void> {
  const told = await rpc.getTransactionWithCompressionInfo(signature);
  const { openedAccounts, closedAccounts } = (told as NonNullable<typeof told>).compressionInfo;
  assert.ok(openedAccounts.length + closedAccounts.length > 0);
  for (const { account } of [...openedAccounts, ...closedAccounts]) {
    const { hash } = account as { hash: Parameters<typeof rpc.getCompressionSignaturesForAccount>[0] };
    const signatures = await rpc.getCompressionSignaturesForAccount(hash);
    assert.ok(signatures.some((item) => item.signature === signature));
  }
}
