/** Answers of Photon, the indexer of the hosted service, that were recorded with the transactions behind them. */
import { readFixture } from './fixtures.ts';

/** The JSON of a snapshot: it follows a head between two lines of dashes. */
export function readSnapshot(name: string): unknown {
  const text = readFixture(`compression/photon-snapshots/integration_tests__${name}.snap`).toString('utf8');
  const [, , ...rest] = text.split(/^---$/m);
  return JSON.parse(rest.join('---')) as unknown;
}

const TIMES = new Set(['slot', 'slotCreated', 'blockTime']);

/** The value without slots and times: Photon was given no blocks, and has zeros there. */
export function withoutTimes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutTimes);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([name]) => !TIMES.has(name));
  return Object.fromEntries(members.map(([name, member]) => [name, withoutTimes(member)]));
}
