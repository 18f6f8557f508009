/** Finished answers go out again only while nothing that they follow from can have changed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createResponseCache } from '../../../plugins/wallet/history.ts';
import type { ChainReader, ChainStatus } from '../../../src/ports/chain.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { eachStore } from '../../helpers/store.ts';

eachStore('whole answers', (engine) => {
  test('are cached between two commits of any process, if the engine reports its version', async (t) => {
    const database = await engine.database(t);
    const [own, other] = [await database.open(), await database.open()];
    const random = createSfc32(1);
    let status: Partial<ChainStatus> = { stalled: null, tipSlot: 100, cursorSlot: 100 };
    let revision = 0;
    const chain = { status: () => status } as ChainReader;
    const mintFacts = { revision: () => revision };
    const answers = createResponseCache({ store: own, chain, mintFacts, maxBytes: 1_000_000 });
    const tell = (question: string) => {
      const bytes = answers.find(question);
      return bytes === undefined ? undefined : Buffer.from(bytes).toString();
    };
    const steps: Record<string, () => unknown> = {
      commit: () => own.probe(),
      'commit of another process': () => other.probe(),
      'commit while it is made': async () => {
        const keep = answers.begin('a');
        await other.probe();
        keep('old');
      },
      'other facts': () => {
        revision += 1;
      },
      'other facts while it is made': () => {
        const keep = answers.begin('a');
        revision += 1;
        keep('old');
      },
    };
    const names = Object.keys(steps);
    for (let round = 0; round < 60; round += 1) {
      const name = names[random.below(names.length)] as string;
      await steps[name]?.();
      assert.equal(tell('a'), undefined, name);
      const text = `{"a":"ä ${round}"}`;
      answers.begin('a')(text);
      assert.equal(tell('a'), engine.dialect === 'sqlite' ? text : undefined, name);
      assert.equal(tell('b'), undefined);
      for (const behind of [{ cursorSlot: 90 }, { tipSlot: null }, { stalled: 'no upstream' }]) {
        const before = status;
        status = { ...before, ...behind };
        assert.equal(tell('a'), undefined);
        status = before;
      }
    }
  });
});
