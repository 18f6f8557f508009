import { type EpochSchedule, epochOf, isEpochSchedule } from '../../../lib/epoch-schedule.ts';
import { isPlainObject } from '../../../lib/json.ts';
import type { Clock } from '../../../ports/clock.ts';
import { faultTextOfRankMap, readRankMap } from '../../../solana/finality/rank-map.ts';
import type { NumberedMap } from './checker.ts';

/** One call to the upstreams, with integers above 2^53 as bigints. Undefined: none has an answer. */
export type AskExactly = (method: string, params: readonly unknown[]) => Promise<unknown>;

/** What a certificate is checked against. */
export interface FinalityFacts {
  readonly map: NumberedMap;
  readonly shredVersion: number;
}

/** Reads ranks and shred version from the upstreams and keeps them: ranks are those of an epoch, the shred version changes when a cluster restarts. */
export interface FactReader {
  /** A text instead of facts: why there are none. They are asked for again after a pause. */
  of(slot: number): Promise<FinalityFacts | string>;
  /** Asks again now, for a certificate that does not hold. Null: nothing has changed, or they were asked for a moment ago. */
  again(slot: number): Promise<FinalityFacts | null>;
}

/** Between questions whose answer was missing, or did not change. */
const ASK_AGAIN_MS = 30_000;
/** The epoch that ends and the one that begins. */
const MAX_MAPS = 2;

export function createFactReader(ask: AskExactly, clock: Pick<Clock, 'monotonic'>): FactReader {
  let schedule: EpochSchedule | null = null;
  let shredVersion: number | null = null;
  let nextId = 0;
  const maps = new Map<number, NumberedMap>();
  let missing: { readonly reason: string; readonly until: number } | null = null;
  let repeatedAt = Number.NEGATIVE_INFINITY;

  async function learn(slot: number): Promise<FinalityFacts | string> {
    schedule ??= scheduleIn(await ask('getEpochSchedule', []));
    if (schedule === null) return 'no upstream answers getEpochSchedule';
    shredVersion ??= shredVersionIn(await ask('getClusterNodes', []));
    if (shredVersion === null) return 'no upstream names one shred version in getClusterNodes';
    const epoch = epochOf(schedule, slot);
    const kept = maps.get(epoch);
    if (kept !== undefined) return { map: kept, shredVersion };
    const map = await readMap(slot, epoch);
    if (typeof map === 'string') return map;
    maps.set(epoch, map);
    for (const known of [...maps.keys()].sort((a, b) => b - a).slice(MAX_MAPS)) maps.delete(known);
    return { map, shredVersion };
  }

  async function readMap(slot: number, epoch: number): Promise<NumberedMap | string> {
    const answer = await ask('getRankMap', [slot]);
    if (!isPlainObject(answer)) return 'no upstream answers getRankMap (Agave 4.5 or newer)';
    if (answer['value'] === null) return `no upstream has the ranks of epoch ${epoch}`;
    const map = readRankMap(answer['value'], epoch);
    if (typeof map === 'string') return `the ranks of epoch ${epoch} are refused: ${faultTextOfRankMap(map)}`;
    nextId += 1;
    return { id: nextId, map };
  }

  return {
    async of(slot) {
      if (missing !== null && clock.monotonic() < missing.until) return missing.reason;
      const facts = await learn(slot);
      missing = typeof facts === 'string' ? { reason: facts, until: clock.monotonic() + ASK_AGAIN_MS } : null;
      return facts;
    },
    async again(slot) {
      if (schedule === null || clock.monotonic() - repeatedAt < ASK_AGAIN_MS) return null;
      repeatedAt = clock.monotonic();
      const epoch = epochOf(schedule, slot);
      const [nodes, map] = await Promise.all([ask('getClusterNodes', []), readMap(slot, epoch)]);
      const version = shredVersionIn(nodes) ?? shredVersion;
      if (typeof map === 'string' || version === null) return null;
      const before = maps.get(epoch);
      const hasNewMap = before === undefined || !isSame(before, map);
      if (!hasNewMap && version === shredVersion) return null;
      shredVersion = version;
      if (hasNewMap) maps.set(epoch, map);
      return { map: maps.get(epoch)!, shredVersion };
    },
  };
}

const scheduleIn = (value: unknown): EpochSchedule | null => (isEpochSchedule(value) ? value : null);

/** All nodes of a cluster have the same one; a node of another cluster is outvoted. */
function shredVersionIn(value: unknown): number | null {
  if (!Array.isArray(value)) return null;
  const counts = new Map<number, number>();
  for (const node of value) {
    const version = isPlainObject(node) ? node['shredVersion'] : null;
    if (Number.isInteger(version) && (version as number) >= 0 && (version as number) <= 0xffff)
      counts.set(version as number, (counts.get(version as number) ?? 0) + 1);
  }
  const [most] = [...counts].sort(([, a], [, b]) => b - a);
  return most?.[0] ?? null;
}

function isSame({ map: a }: NumberedMap, { map: b }: NumberedMap): boolean {
  return (
    a.totalStake === b.totalStake &&
    a.validators.length === b.validators.length &&
    a.validators.every(({ publicKey, stake }, rank) => {
      const other = b.validators[rank]!;
      return stake === other.stake && Buffer.compare(publicKey, other.publicKey) === 0;
    })
  );
}
