import type { Assembly } from '../../kernel/assembly/assemble.ts';
import { EXIT } from '../../kernel/errors.ts';
import { recordManualGap, wantGaps } from '../../kernel/follower/backfill/gap-changes.ts';
import { type GapRecord, readGap, readGaps } from '../../kernel/follower/backfill/gap-record.ts';
import type { BlockProcessor } from '../../kernel/plugin.ts';
import { CodedError } from '../../lib/coded-error.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Store } from '../../ports/store.ts';
import type { BackfillRequest } from './request.ts';

export interface Wanted {
  readonly gaps: readonly GapRecord[];
  /** Also of those that come of them when they are cut in two. */
  readonly isOurs: (gap: GapRecord) => boolean;
}

/** Notes what is wanted, so that whoever fills gaps takes it up at once. Errors: CONFIG_INVALID, exit 64. */
export async function recordWish(
  store: Store,
  assembly: Assembly,
  request: Extract<BackfillRequest, { kind: 'gaps' | 'range' }>,
  clock: Clock,
): Promise<Wanted> {
  const open = await readGaps(store.read, {
    isOpen: true,
    limit: 1_000,
    ...(request.chain === null ? {} : { chain: request.chain }),
  });
  if (request.kind === 'gaps') {
    const ids = open.map(({ id }) => id);
    await store.write((tx) => wantGaps(tx, ids, clock.now()));
    return { gaps: open, isOurs: ({ chain }) => request.chain === null || chain === request.chain };
  }
  const chain = request.chain ?? 'main';
  const owners = ownersOf(assembly, chain, request.processor);
  const addresses = request.byAddress ? await addressesOf(store, assembly, chain, owners) : null;
  const isSame = (gap: GapRecord) =>
    gap.chain === chain &&
    gap.reason === 'manual' &&
    gap.fromSlot === request.fromSlot &&
    gap.toSlot === request.toSlot &&
    (gap.addresses === null) === (addresses === null) &&
    namesOf(gap.fills) === namesOf(owners);
  const now = clock.now();
  // The same range, interrupted before, goes on where it was.
  const known = open.find(isSame);
  const id = await store.write(async (tx) => {
    if (known === undefined) return await recordManualGap(tx, chain, request, owners, now, addresses);
    await wantGaps(tx, [known.id], now);
    return known.id;
  });
  const gap = (await readGap(store.read, id))!;
  return {
    gaps: [gap],
    isOurs: (other) =>
      other.chain === chain &&
      other.reason === 'manual' &&
      other.detectedAt === gap.detectedAt &&
      other.fromSlot >= gap.fromSlot &&
      other.toSlot <= gap.toSlot,
  };
}

function ownersOf(assembly: Assembly, chain: ChainId, name: string | null): readonly BlockProcessor[] {
  const all = assembly.merged.processors.filter(({ chains }) => chains.includes(chain));
  const chosen =
    name === null
      ? all.filter(({ outOfOrder, wantsGaps }) => outOfOrder === true && wantsGaps !== false)
      : all.filter((one) => one.name === name);
  if (chosen.length === 0)
    throw usage(
      name === null
        ? `no processor of the ${chain} chain takes blocks out of their order`
        : `there is no processor ${name} on the ${chain} chain; there are: ${all.map((one) => one.name).join(', ') || 'none'}`,
    );
  const ordered = chosen.find(({ outOfOrder }) => outOfOrder !== true);
  if (ordered !== undefined)
    throw usage(`processor ${ordered.name} takes blocks in their order only: it has to be indexed again`);
  return chosen;
}

/** What the processors watch now. Errors: CONFIG_INVALID, exit 64. */
async function addressesOf(
  store: Store,
  { config }: Assembly,
  chain: ChainId,
  owners: readonly BlockProcessor[],
): Promise<readonly string[]> {
  const most = config.core.follow.gapBackfill.maxAddresses;
  const all = new Set<string>();
  for (const { name, addresses } of owners) {
    if (addresses === undefined) throw usage(`processor ${name} watches no addresses: it takes whole blocks only`);
    for (const address of await addresses(store.read, chain, most + 1)) all.add(address);
  }
  if (all.size <= most) return [...all];
  throw usage(`more than ${most} addresses are watched (follow.gapBackfill.maxAddresses)`);
}

const namesOf = (owners: readonly { readonly name: string; readonly version: number }[]) =>
  owners
    .map(({ name, version }) => `${name}@${version}`)
    .sort()
    .join();

const usage = (message: string) => new CodedError('CONFIG_INVALID', message, { exitCode: EXIT.usage });
