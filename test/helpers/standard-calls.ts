/**
 * Calls of the standard methods with members at random: present, absent, null, of another type, out of range, and with one parameter too
 * many. Whoever answers them, the answers are to be the same.
 */
import type { Sfc32 } from './sfc32.ts';

/** What is on the chain; all of it final. */
export interface CallFacts {
  /** Slots with a block; the same one may come twice. */
  readonly slots: readonly number[];
  /** Further slots to ask for. */
  readonly otherSlots: readonly number[];
  readonly signatures: readonly string[];
  readonly addresses: readonly string[];
}

export type StandardCall = readonly [method: string, params: readonly unknown[]];

const NO_SIGNATURE = '1'.repeat(64);
const NO_ADDRESS = 'SysvarRecentB1ockHashes11111111111111111112';
/** Far above every slot of a test chain. */
const FAR_SLOT = 10 ** 12;
const WRONG: readonly unknown[] = ['x', -1, 1.5, true, {}, []];

const ENCODINGS = ['json', 'jsonParsed', 'base58', 'base64', 'binary'];
const ACCOUNT_ENCODINGS = ['base58', 'base64', 'base64+zstd', 'jsonParsed', 'binary'];
const COMMITMENTS = ['confirmed', 'finalized'];

/** Chances: a member is there; a value is a wrong one; a call has another number of params. */
const THERE = 0.45;
const AMISS = 0.04;
const OTHER_LENGTH = 0.05;

export function createCalls(random: Sfc32, facts: CallFacts) {
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)] as T;
  const chance = (share: number) => random.float() < share;
  const orWrong = (value: unknown): unknown => (chance(AMISS) ? pick([...WRONG, null]) : value);

  /** Members of a configuration; each may be absent. */
  function config(members: Readonly<Record<string, () => unknown>>): Record<string, unknown> {
    const chosen: Record<string, unknown> = {};
    for (const [name, make] of Object.entries(members)) if (chance(THERE)) chosen[name] = orWrong(make());
    if (chance(AMISS)) chosen['unknownMember'] = 1;
    return chosen;
  }

  const slot = () => orWrong(chance(0.9) ? pick(facts.slots) : pick([...facts.otherSlots, FAR_SLOT, FAR_SLOT ** 2]));
  const signature = () => orWrong(chance(0.9) ? pick(facts.signatures) : pick([NO_SIGNATURE, NO_ADDRESS, '']));
  const address = () => orWrong(chance(0.9) ? pick(facts.addresses) : pick([NO_ADDRESS, NO_SIGNATURE, 'short']));
  const commitment = () => (chance(0.9) ? pick(COMMITMENTS) : 'processed');
  const version = () => pick([0, 0, 1, 1, 255, 256]);
  const minContextSlot = () => pick([0, pick(facts.slots), FAR_SLOT]);
  const flag = () => chance(0.5);
  const slice = () => ({ offset: pick([0, 1, 64, 500]), length: pick([0, 1, 8, 600]) });

  /** Sometimes too few, sometimes one too many. */
  function params(...given: readonly unknown[]): readonly unknown[] {
    if (!chance(OTHER_LENGTH)) return given;
    return chance(0.4) ? given.slice(0, -1) : [...given, pick([3, {}, null, 'x'])];
  }

  const shown = () =>
    config({
      encoding: () => pick(ENCODINGS),
      commitment,
      maxSupportedTransactionVersion: version,
    });
  const account = () =>
    config({ encoding: () => pick(ACCOUNT_ENCODINGS), commitment, dataSlice: slice, minContextSlot });

  const past: readonly (() => StandardCall)[] = [
    () => {
      const more = config({
        rewards: flag,
        transactionDetails: () => pick(['full', 'full', 'accounts', 'signatures', 'none', 'some']),
      });
      const given = { ...shown(), ...more };
      return ['getBlock', params(slot(), chance(0.1) ? pick(ENCODINGS) : given)];
    },
    () => ['getTransaction', params(signature(), chance(0.1) ? pick(ENCODINGS) : shown())],
    () => ['getBlockTime', params(slot())],
    () => {
      const [from, to] = [pick(facts.slots), pick(facts.slots)].sort((one, other) => one - other);
      return ['getBlocks', params(orWrong(from), orWrong(to), config({ commitment }))];
    },
    () => [
      'getBlocksWithLimit',
      params(orWrong(pick(facts.slots)), orWrong(pick([0, 1, 2, 7])), config({ commitment })),
    ],
    () => {
      const given = config({
        limit: () => pick([0, 1, 2, 5, 1_000, 1_001]),
        before: () => pick(facts.signatures),
        until: () => pick(facts.signatures),
        commitment,
        minContextSlot,
      });
      return ['getSignaturesForAddress', params(address(), given)];
    },
    () => {
      const list = Array.from({ length: random.below(4) }, signature);
      return ['getSignatureStatuses', params(list, config({ searchTransactionHistory: flag }))];
    },
  ];

  const state: readonly (() => StandardCall)[] = [
    () => ['getBalance', params(address(), config({ commitment, minContextSlot }))],
    () => ['getAccountInfo', params(address(), account())],
    () => ['getMultipleAccounts', params(Array.from({ length: random.below(4) }, address), account())],
    () => ['getMinimumBalanceForRentExemption', params(orWrong(pick([0, 1, 165, 10_000])), config({ commitment }))],
    () => ['getTokenAccountBalance', params(address(), config({ commitment }))],
    () => ['getTokenSupply', params(address(), config({ commitment }))],
    () => ['getGenesisHash', params()],
    () => ['getEpochSchedule', params()],
    () => ['getFeeForMessage', params(orWrong('AQAB'), config({ commitment, minContextSlot }))],
    () => ['isBlockhashValid', params(address(), config({ commitment }))],
  ];

  return {
    /** About what is final and will not change. */
    past: (): StandardCall => pick(past)(),
    /** About accounts and the cluster: answers hold for the moment. */
    state: (): StandardCall => pick(state)(),
  };
}

/** The result or the error of an answer, byte for byte, without the envelope and the slot that it is of. */
export function shownBody(text: string): string {
  const body =
    /^\{"jsonrpc":"2.0",(?:"id":1,)?((?:result|error|"result"|"error").*?)(?:,"id":1)?\}\s*$/s.exec(text)?.[1] ?? text;
  return body
    .replace(/^"result":\{"context":\{(?:"apiVersion":"[^"]*",)?"slot":\d+\},/, '"result":{"context":SLOT,')
    .replace(/"data":\{"contextSlot":\d+\}/, '"data":{"contextSlot":SLOT}');
}
