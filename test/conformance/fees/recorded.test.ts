import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import {
  address,
  type ChainSpec,
  startFollowedChain,
  type TransactionSpec,
  textOf,
  wireOf,
} from './specified-chain.ts';

interface Case {
  readonly chain: string;
  readonly name: string;
  readonly request: Readonly<Record<string, unknown>>;
  readonly expected: {
    readonly result?: Record<string, unknown> & { priorityFeeEstimateDetails?: [string, unknown][] };
    readonly error?: { readonly code: number; readonly message: string; readonly loose?: true | 'prefix' };
  };
}

interface Recorded {
  readonly chains: readonly ChainSpec[];
  readonly cases: readonly Case[];
}

const recorded =
  skipWithoutFixtures === false ? readJsonFixture<Recorded>('fees/fees.json') : { chains: [], cases: [] };

/** Addresses for names, wire bytes for specifications. */
function filled(value: unknown, tables: ChainSpec['tables']): unknown {
  if (typeof value === 'string') return address(value);
  if (Array.isArray(value)) return value.map((one) => filled(one, tables));
  if (typeof value !== 'object' || value === null) return value;
  const given = value as Record<string, unknown>;
  if (typeof given['$many'] === 'number')
    return Array.from({ length: given['$many'] }, (_, at) => address(`@many ${at}`));
  if (given['$spec'] !== undefined) {
    return textOf(wireOf(given['$spec'] as TransactionSpec, tables).wire, given['encoding'] as string);
  }
  return Object.fromEntries(Object.entries(given).map(([name, one]) => [name, filled(one, tables)]));
}

/** Which address a name stands for is ours to choose, so lists are compared by what is in them. */
const nameless = (details: readonly (readonly [string, unknown])[]) =>
  details.map(([name, one]) => `${name === 'Global'} ${JSON.stringify(one)}`).sort();

test('recorded chains are there', { skip: skipWithoutFixtures }, () => assert.ok(recorded.chains.length > 0));
for (const chain of recorded.chains) {
  const cases = recorded.cases.filter((one) => one.chain === chain.name);
  test(`estimates over the recorded chain: ${chain.name}`, { skip: skipWithoutFixtures }, async (t) => {
    const followed = await startFollowedChain(t, chain);
    const wrong: string[] = [];
    for (const { name, request, expected } of cases) {
      const { body } = await followed.ask('getPriorityFeeEstimate', [filled(request, chain.tables)]);
      try {
        const { error } = expected;
        if (error !== undefined) {
          assert.equal(body.error?.code, error.code);
          if (error.loose === 'prefix') assert.ok(body.error?.message.startsWith(error.message), body.error?.message);
          else if (error.loose !== true) assert.equal(body.error?.message, error.message);
          continue;
        }
        const { priorityFeeEstimateDetails: details, ...rest } = (body.result ?? {}) as NonNullable<
          Case['expected']['result']
        >;
        const { priorityFeeEstimateDetails: wanted, ...others } = expected.result!;
        assert.deepEqual(rest, others);
        assert.deepEqual(details && nameless(details), wanted && nameless(wanted));
        const names = details?.map(([account]) => account) ?? [];
        assert.deepEqual(names, [...names].sort().reverse());
      } catch (error) {
        wrong.push(`${name}: ${(error as Error).message} ${JSON.stringify(body)}`.slice(0, 600));
      }
    }
    assert.deepEqual(wrong, []);
    assert.ok(cases.length > 0);
  });
}
