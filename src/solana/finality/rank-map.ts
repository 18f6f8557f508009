/** The validators of an epoch in the order of their ranks, as `getRankMap` of Agave 4.5 answers: the root of trust of a certificate. */
import { decode } from '../../lib/base58.ts';
import { isPlainObject } from '../../lib/json.ts';

export interface RankedValidator {
  /** Compressed point of G1 on BLS12-381, 48 bytes. */
  readonly publicKey: Uint8Array;
  /** Lamports. */
  readonly stake: bigint;
}

export interface RankMap {
  readonly epoch: number;
  /** Lamports of all ranked validators, not of the whole epoch. */
  readonly totalStake: bigint;
  /** The index is the rank. */
  readonly validators: readonly RankedValidator[];
}

/** Why a map is not used: `malformed` members, `ranks` that are not 0 to n - 1, `order`, a `doubled-key`, a wrong `sum`, another `epoch`. */
export type RankMapRefusal = 'malformed' | 'ranks' | 'order' | 'doubled-key' | 'sum' | 'epoch';

const FAULTS: Readonly<Record<RankMapRefusal, string>> = {
  malformed: 'a member is malformed',
  ranks: 'ranks do not count up from 0',
  order: 'they are not ordered by stake and key',
  'doubled-key': 'a key occurs twice',
  sum: 'the stakes do not add up to the total',
  epoch: 'they are of another epoch',
};

export const faultTextOfRankMap = (fault: RankMapRefusal): string => FAULTS[fault];

/** Agave admits no more (solana-runtime 4.5.0-alpha.4, src/epoch_stakes.rs). */
const MAX_VALIDATORS = 2_000;
const PUBLIC_KEY_BYTES = 48;
/** Most base58 characters of a BLS key (48 bytes). */
const MAX_KEY_CHARS = 66;

/**
 * `value`: the member of that name in the answer, with integers above 2^53 as bigints. `epoch`: the one that was asked for; null if it is
 * unknown, which then is not compared.
 */
export function readRankMap(value: unknown, epoch: number | null): RankMap | RankMapRefusal {
  if (!isPlainObject(value) || !Array.isArray(value['validators'])) return 'malformed';
  const list = value['validators'] as unknown[];
  const totalStake = lamportsOf(value['totalStake']);
  if (totalStake === null || list.length === 0 || list.length > MAX_VALIDATORS) return 'malformed';
  const validators: RankedValidator[] = [];
  for (const [index, entry] of list.entries()) {
    const validator = isPlainObject(entry) ? validatorOf(entry) : null;
    if (validator === null) return 'malformed';
    if ((entry as Record<string, unknown>)['rank'] !== index) return 'ranks';
    validators.push(validator);
  }
  const map = { epoch: value['epoch'] as number, totalStake, validators };
  if (!Number.isSafeInteger(map.epoch)) return 'malformed';
  if (epoch !== null && map.epoch !== epoch) return 'epoch';
  return faultOfRankMap(map) ?? map;
}

function validatorOf({ blsPubkeyCompressed: key, stake: given }: Record<string, unknown>): RankedValidator | null {
  const stake = lamportsOf(given);
  const publicKey = typeof key === 'string' && key.length <= MAX_KEY_CHARS ? bytesOf(key) : null;
  return stake === null || stake === 0n || publicKey?.length !== PUBLIC_KEY_BYTES ? null : { publicKey, stake };
}

function bytesOf(text: string): Uint8Array | null {
  try {
    return decode(text);
  } catch {
    return null;
  }
}

const lamportsOf = (value: unknown): bigint | null =>
  typeof value === 'bigint' || Number.isSafeInteger(value) ? nonNegative(BigInt(value as bigint | number)) : null;
const nonNegative = (value: bigint): bigint | null => (value < 0n ? null : value);

/** The order is stake descending, then key ascending; no key occurs twice; the total is the sum. */
export function faultOfRankMap({ validators, totalStake }: RankMap): RankMapRefusal | null {
  const keys = new Set(validators.map(({ publicKey }) => Buffer.from(publicKey).toString('hex')));
  if (keys.size !== validators.length) return 'doubled-key';
  for (const [index, validator] of validators.entries()) {
    const before = validators[index - 1];
    if (before === undefined || before.stake > validator.stake) continue;
    if (before.stake < validator.stake || Buffer.compare(before.publicKey, validator.publicKey) > 0) return 'order';
  }
  return validators.reduce((sum, { stake }) => sum + stake, 0n) === totalStake ? null : 'sum';
}
