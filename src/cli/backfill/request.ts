import { filledTo, type GapRecord, readGap, readGaps, recordManualGap, wantGaps } from '../../chain/gaps.ts';

import type { Assembly } from '../../daemon/assemble.ts';
import { CodedError } from '../../lib/coded-error.ts';
import type { BlockProcessor } from '../../plugin/plugin.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Store } from '../../ports/store.ts';
import { EXIT } from '../../runtime/errors.ts';
import type { CommandValues } from '../command.ts';

export type BackfillRequest = { readonly chain: ChainId | null; readonly json: boolean } & (
  | { readonly kind: 'list' }
  | { readonly kind: 'abandon'; readonly id: number }
  /** Fill open gaps. */
  | { readonly kind: 'gaps' }
  /** Read a range, possibly again. */
  | {
      readonly kind: 'range';
      readonly fromSlot: number;
      /** Inclusive. */
      readonly toSlot: number;
      readonly processor: string | null;
      /** Only the transactions of the addresses that the processors watch, not whole blocks. */
      readonly byAddress: boolean;
    }
);

/** Errors: CONFIG_INVALID, exit 64. */
export function readRequest(values: CommandValues): BackfillRequest {
  const common = {
    chain: values['chain'] === 'main' || values['chain'] === 'devnet' ? values['chain'] : null,
    json: values['json'] === true,
  } as const;
  const isRange = values['from'] !== undefined || values['to'] !== undefined;
  const wishes = [isRange, values['gaps'] === true, values['list'] === true, values['abandon'] !== undefined];
  if (wishes.filter(Boolean).length !== 1) throw usage('give one of: --from S --to S, --gaps, --list, --abandon ID');
  for (const flag of ['processor', 'byAddress'])
    if (values[flag] !== undefined && !isRange) throw usage(`--${dashed(flag)} goes with --from and --to`);
  if (values['list'] === true) return { ...common, kind: 'list' };
  if (values['gaps'] === true) return { ...common, kind: 'gaps' };
  if (!isRange) return { ...common, kind: 'abandon', id: numberOf(values, 'abandon') };
  const fromSlot = numberOf(values, 'from');
  const toSlot = numberOf(values, 'to');
  if (toSlot < fromSlot) throw usage('--to is below --from');
  const processor = values['processor'];
  return {
    ...{ ...common, kind: 'range', fromSlot, toSlot },
    processor: typeof processor === 'string' ? processor : null,
    byAddress: values['byAddress'] === true,
  };
}

function numberOf(values: CommandValues, name: string): number {
  const value = values[name];
  if (typeof value !== 'string' || !/^\d{1,15}$/.test(value)) throw usage(`--${name} needs a number`);
  return Number(value);
}

const dashed = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

const usage = (message: string) => new CodedError('CONFIG_INVALID', message, { exitCode: EXIT.usage });

export interface Wanted {
  readonly gaps: readonly GapRecord[];
  /** Includes gaps that result from splitting them. */
  readonly isOurs: (gap: GapRecord) => boolean;
}

/** Stores the request, so that the process that fills gaps starts at once. Errors: CONFIG_INVALID, exit 64. */
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
  // The same range, interrupted before, is resumed.
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
        ? `no processor of the ${chain} chain accepts blocks out of order`
        : `there is no processor ${name} on the ${chain} chain; there are: ${all.map((one) => one.name).join(', ') || 'none'}`,
    );
  const ordered = chosen.find(({ outOfOrder }) => outOfOrder !== true);
  if (ordered !== undefined)
    throw usage(`processor ${ordered.name} accepts blocks only in order: it must be indexed again`);
  return chosen;
}

/** The addresses that the processors watch now. Errors: CONFIG_INVALID, exit 64. */
async function addressesOf(
  store: Store,
  { config }: Assembly,
  chain: ChainId,
  owners: readonly BlockProcessor[],
): Promise<readonly string[]> {
  const most = config.core.follow.gapBackfill.maxAddresses;
  const all = new Set<string>();
  for (const { name, addresses } of owners) {
    if (addresses === undefined)
      throw usage(`processor ${name} does not watch addresses: it accepts only whole blocks`);
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

/** A gap as a line of text. */
export function gapLine(gap: GapRecord): string {
  const names = gap.fills.map(({ name }) => name).join(', ');
  const to = gap.status === 'filling' || gap.status === 'open' ? filledTo(gap) : null;
  return [
    `#${gap.id}  ${gap.chain}  ${gap.fromSlot}-${gap.toSlot}  ${gap.reason}  ${gap.status}`,
    ...(to === null ? [] : [`filled to ${to}`]),
    ...(names === '' ? [] : [`for ${names}`]),
    ...(gap.addresses === null ? [] : [`by ${gap.addresses.length} addresses`]),
    new Date(gap.detectedAt).toISOString(),
    ...(gap.trouble === null ? [] : [`- ${gap.trouble}`]),
  ].join('  ');
}
