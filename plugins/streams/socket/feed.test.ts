import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBudgets } from '../../../src/budgets.ts';
import type { ChainBlock } from '../../../src/plugin/plugin.ts';
import type { MatchOptions, ParsedMatch, ParsedTransactions } from '../../../src/ports/parsed-transactions.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import { createStreamHub, type Feed, type Reader } from '../hub/index.ts';
import { createParsedFeeds } from './feed.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));
const blockOf = (slot: number) =>
  ({ slot, parentSlot: slot - 1, blockhash: String(slot), transactions: [] }) as unknown as ChainBlock;
const match: ParsedMatch = { index: 0, signature: 's', text: () => '{}', key: () => 'k' };

/** Boards that give every subscription one match and 500 transactions in vain; `slow` never comes to an end, `costly` takes too long. */
const PARSED: ParsedTransactions = {
  readFilter: () => assert.fail(),
  openBoard<Owner>() {
    const owners = new Map<Owner, string | null>();
    return {
      set: (owner: Owner, { project }: { readonly project: string | null }) => void owners.set(owner, project),
      remove: (owner: Owner) => void owners.delete(owner),
      candidates: () => new Map(),
      async match(_: ChainBlock, how: MatchOptions<Owner>) {
        if ([...owners.values()].includes('slow')) await new Promise(() => undefined);
        const found = new Map<Owner, readonly ParsedMatch[]>();
        for (const [owner, project] of owners) {
          how.decoded?.(owner, 501);
          if (project === 'costly') how.costly?.(owner, 'PARSED_IDL_COSTLY: x');
          else found.set(owner, [match]);
        }
        return found;
      },
    };
  },
};

test('a project that lags holds up no other one, one whose interfaces take too long ends alone; what was decoded in vain is charged', async () => {
  const clock = createManualClock();
  const log = createMemoryLog();
  const hub = createStreamHub({
    metrics: createMetricsRegistry().scope('streams'),
    log,
    limits: { maxPendingBytes: 1_000_000 },
    blocks: () => null,
  });
  const feeds = createParsedFeeds(PARSED, { clock, log });
  const budgets = createBudgets();
  const events: string[] = [];
  const join = (project: string) => {
    const feed: Feed = feeds({ kind: 'parsed', filter: {}, details: 'full', from: null } as never, project);
    const reader: Reader = {
      tenant: budgets.tenantOf({ projectId: project, keyId: 'k', plan: 'p', wallet: null }, ''),
      send: ({ updates }) => void events.push(`${project} got ${updates}`),
      payForBlock: async () => undefined,
      payForSearch: (transactions) => void events.push(`${project} pays ${transactions}`),
      lagged: () => void events.push(`${project} lags`),
      refused: ({ status, message }) => void events.push(`${project} ${status} ${message}`),
      ready: async () => undefined,
    };
    hub.join({ key: null, feed, from: null }, reader);
  };
  for (const project of ['slow', 'costly', 'usual']) join(project);
  hub.released(blockOf(1));
  await turn();
  assert.deepEqual(events.sort(), [
    'costly pays 501',
    'costly resourceExhausted PARSED_IDL_COSTLY: x',
    'usual got 1',
    'usual pays 500',
  ]);
  events.length = 0;
  for (let slot = 2; slot <= 40; slot += 1) {
    hub.released(blockOf(slot));
    await turn();
  }
  const of = (text: string) => events.filter((event) => event === text).length;
  // Blocks wait for it, up to so many transactions.
  assert.deepEqual([of('slow lags'), of('usual got 1'), of('usual lags')], [0, 39, 0]);
});
