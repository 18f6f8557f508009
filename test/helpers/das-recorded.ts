/** Recorded scenarios of the asset API, and the chain as they leave it. */
import { type AccountSource, mostHeld, placesOf } from '../../plugins/das/source.ts';
import { equalBytes } from '../../src/lib/bytes.ts';
import type { OffChainDocuments } from '../../src/ports/tokens.ts';
import { decodeCoreAsset, decodeCoreCollection } from '../../src/solana/accounts/core.ts';
import type { RawAccount } from '../../src/solana/accounts/decoded.ts';
import { decodeMetadata } from '../../src/solana/accounts/metaplex.ts';
import { decodeTokenAccount } from '../../src/solana/accounts/token.ts';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from './fixtures.ts';

export interface DasScenario {
  readonly name: string;
  readonly accounts: readonly {
    readonly pubkey: string;
    readonly slot: number;
    readonly owner: string;
    readonly lamports: number;
    readonly dataBase64: string;
  }[];
  readonly transactions: readonly { readonly signature: string; readonly getTransaction: { readonly slot: number } }[];
  /** What the addresses in the metadata of assets answer. */
  readonly offChain?: readonly { readonly asset: string; readonly document: unknown }[];
  readonly requests: readonly {
    readonly method: string;
    readonly params: Record<string, unknown>;
    readonly expected: unknown;
  }[];
}

/** All scenarios, or those of the files whose name has the word. */
export function dasScenarios(word = ''): readonly DasScenario[] {
  if (skipWithoutFixtures !== false) return [];
  return listFixtures('das')
    .filter((file) => !file.endsWith('manifest.json') && file.includes(word))
    .flatMap((file) => readJsonFixture<DasScenario[]>(file));
}

/** The chain as the scenario leaves it. */
export function recordedSource({ accounts }: DasScenario): AccountSource {
  const newest = new Map<string, DasScenario['accounts'][number]>();
  for (const one of accounts) if ((newest.get(one.pubkey)?.slot ?? -1) <= one.slot) newest.set(one.pubkey, one);
  const chain = new Map<string, RawAccount>(
    Array.from(newest, ([key, { owner, lamports, dataBase64 }]) => [
      key,
      { owner, lamports: BigInt(lamports), data: Buffer.from(dataBase64, 'base64') },
    ]),
  );
  const held = Array.from(chain, ([address, account]) => ({
    address,
    account,
    held: decodeTokenAccount(account).value,
  }));
  return {
    slot: 1,
    isStored: () => false,
    isOfIndex: false,
    accounts: async (keys) => new Map(keys.map((key) => [key, chain.get(key) ?? null])),
    largest: async (mint) =>
      mostHeld(held.flatMap((one) => (one.held?.mint === mint ? [[one.address, one.held.amount] as const] : []))),
    ofOwner: async (owner) => held.filter((one) => one.held?.owner === owner),
    ofMint: async (mint) => held.filter((one) => one.held?.mint === mint),
    ofProgram: async (program, filters, slice) =>
      Array.from(chain, ([address, account]) => ({ address, account }))
        .filter(
          ({ account: { owner, data } }) =>
            owner === program &&
            filters.every((one) =>
              'dataSize' in one
                ? data.length === one.dataSize
                : equalBytes(data.subarray(one.offset, one.offset + one.bytes.length), one.bytes),
            ),
        )
        .map(({ address, account }) => {
          const { offset, length } = slice ?? { offset: 0, length: account.data.length };
          return { address, account: { ...account, data: account.data.subarray(offset, offset + length) } };
        }),
    places: placesOf,
    slotOf: (address) => newest.get(address)?.slot ?? 1,
    lastAccounts: async () => new Map(),
    createdTime: () => null,
    lamports: async () => 0,
    firstTransaction: async () => [],
    passOn: async () => null,
    assetsElsewhere: async () => new Map(),
  };
}

/** The documents of the assets, by the addresses that their accounts have, or the answers say. */
export function recordedDocuments(scenario: DasScenario): Pick<OffChainDocuments, 'read' | 'peek'> {
  const source = recordedSource(scenario);
  const shown = (value: unknown): readonly { id?: string; content?: { json_uri?: string } }[] =>
    Array.isArray(value) ? value : ((value as { items?: [] } | null)?.items ?? [value as object]);
  return {
    peek: () => undefined,
    async read() {
      const found = new Map<string, unknown>();
      for (const { asset, document } of scenario.offChain ?? []) {
        const accounts = await source.accounts([asset, source.places(asset).metadata]);
        const [own, metadata] = [...accounts.values()];
        const uris = [
          metadata == null ? undefined : decodeMetadata(metadata).value?.uri,
          ...(own == null ? [] : [decodeCoreAsset(own).value?.uri, decodeCoreCollection(own).value?.uri]),
          ...scenario.requests.flatMap(({ expected }) =>
            shown(expected).flatMap((one) => (one?.id === asset ? [one.content?.json_uri] : [])),
          ),
        ];
        for (const uri of uris) if (uri !== undefined) found.set(uri, document);
      }
      return found;
    },
  };
}

/** The answer as a client parses it: bigints become numbers. */
export const plainAnswer = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, member) => (typeof member === 'bigint' ? Number(member) : member)));

/** The later branch of the reference leaves an absent owner out. */
export function withOwner(expected: unknown): unknown {
  const copy = structuredClone(expected) as { ownership?: { owner?: string } };
  if (copy?.ownership !== undefined) copy.ownership.owner ??= '';
  return copy;
}
