/** A write of the chain's cursor whose answer was lost, or whose adoption in memory failed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { moveChain, verifyCommit } from '../../../src/chain/commit.ts';
import { moveCursors } from '../../../src/chain/cursor.ts';
import type { Run } from '../../../src/chain/run.ts';
import { newFollowState, type UnverifiedCommit } from '../../../src/chain/state.ts';
import { followerMigrations, MAIN } from '../../../src/chain/tables.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { sqliteStore } from '../../helpers/store.ts';

const TO = { slot: 5, blockhash: 'five', blockTime: null };

test('a move is adopted once it is known to be written, and again when adopting failed', async (t) => {
  const store = await sqliteStore(t);
  await migrate(store, [{ scope: 'kernel.follow', migrations: followerMigrations }]);
  const write = () => store.write((tx) => moveCursors(tx, 'main', [MAIN], null, TO));
  const start = (failures: number) => {
    let adopted = 0;
    const unverified: UnverifiedCommit = {
      to: TO,
      adopt() {
        adopted += 1;
        if (adopted <= failures) throw new Error('not yet');
      },
    };
    const run = { state: newFollowState(0), store, chain: 'main' } as unknown as Run;
    return { run, unverified, adopted: () => adopted };
  };

  const lost = start(0);
  const nothing = () => Promise.reject(new CodedError('STORE_UNREACHABLE', 'before anything was written'));
  await assert.rejects(moveChain(lost.run, nothing, lost.unverified), { code: 'STORE_UNREACHABLE' });
  await verifyCommit(lost.run);
  assert.deepEqual([lost.adopted(), lost.run.state.unverified], [0, null], 'what was not written is not adopted');

  const twice = start(2);
  await assert.rejects(moveChain(twice.run, write, twice.unverified), /not yet/);
  await assert.rejects(verifyCommit(twice.run), /not yet/);
  await verifyCommit(twice.run);
  assert.deepEqual([twice.adopted(), twice.run.state.unverified], [3, null]);
  await verifyCommit(twice.run);
  assert.equal(twice.adopted(), 3, 'and no more');

  const answered = start(0);
  const gone = () => Promise.reject(new CodedError('STORE_UNREACHABLE', 'after it was written'));
  await assert.rejects(moveChain(answered.run, gone, answered.unverified), { code: 'STORE_UNREACHABLE' });
  await verifyCommit(answered.run);
  assert.deepEqual([answered.adopted(), answered.run.state.unverified], [1, null], 'the store decides');
});
