import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { honest } from '../follower/fake-node.ts';
import { createWorld } from '../follower/world.ts';
import { createParts, quorumLife } from './quorum-life.ts';

test('liars that are fewer than a quorum give no wrong block and no wrong answer: some seeds', async () => {
  for (let seed = 1; seed <= 6; seed += 1) assert.equal(await quorumLife(seed), null);
});

async function chainOf(count: number, needed: number) {
  const draw = createSfc32(7);
  const world = createWorld(draw);
  const other = createWorld(createSfc32(8), 12, 'made-up ');
  for (const one of [world, other]) {
    one.migrate();
    for (let made = 0; made < 10; made += 1) one.grow();
  }
  const upstreams = Array.from({ length: count }, (_, index) => honest(`upstream-${index}`));
  const parts = createParts(world, upstreams, draw, needed);
  await parts.clock.passWhile(parts.pool.start(), 'the start');
  const ask = { commitment: 'finalized', signal: new AbortController().signal } as const;
  return { world, other, upstreams, ask, ...parts };
}

test('a lone liar is named in the log and in its state, and rests', async () => {
  const { world, other, upstreams, ask, source, clock, log, pool } = await chainOf(3, 2);
  upstreams[0]!.fabricated = other;
  const { slot, blockhash } = world.chain[5]!;
  const answer = await clock.passWhile(source.block(slot, ask), 'the block');
  assert.ok(answer.kind === 'block' && answer.block.blockhash === blockhash);
  const named = log.lines.filter(({ fields }) => fields['event'] === 'upstream.outvoted');
  assert.deepEqual(
    named.map(({ level, fields }) => [level, fields['upstream'], fields['slot']]),
    [['error', 'main-0', slot]],
  );
  const [state] = pool.states();
  assert.equal(state?.healthy, false);
  assert.match(
    state?.reason ?? '',
    new RegExp(`^contradicted the chain: block ${slot}: it says .* main-[12], main-[12] say `),
  );
  assert.match(source.distrusted?.()[0] ?? '', /^main-0 contradicted the chain/);
  await clock.passWhile(pool.stop(), 'the end');
});

test('a tie is an error that names who says what, until one of them comes to its senses', async () => {
  const { world, other, upstreams, ask, source, clock, pool } = await chainOf(2, 2);
  upstreams[1]!.fabricated = other;
  const wanted = world.chain.find(({ slot }) => other.blockAt(slot) !== undefined)!;
  const tie = await clock.passWhile(
    source.block(wanted.slot, ask).catch((error: unknown) => error),
    'the block',
  );
  assert.match(String(tie), /upstreams disagree, 2 of 2 must agree; main-\d: \w+ on .*; main-\d: \w+ on /);
  assert.equal((tie as { code: string }).code, 'CHAIN_NO_QUORUM');
  assert.match(source.disagreement?.(wanted.slot - 1) ?? '', /^block \d+: upstreams disagree/);
  assert.equal(source.disagreement?.(wanted.slot), null, 'what is released is no trouble');
  upstreams[1]!.fabricated = null;
  const answer = await clock.passWhile(source.block(wanted.slot, ask), 'the block');
  assert.equal(answer.kind, 'block');
  await clock.passWhile(pool.stop(), 'the end');
});

test('a quorum that is no majority, or that cannot be reached, is a wrong configuration', () => {
  const draw = createSfc32(7);
  const upstreams = Array.from({ length: 4 }, (_, index) => honest(`upstream-${index}`));
  for (const agree of [1, 2, 5])
    assert.throws(() => createParts(createWorld(draw), upstreams, draw, agree), {
      code: 'CONFIG_INVALID',
      message: `upstream.quorum.agree is ${agree}, with 4 upstreams: it must be more than half of them, and at most all`,
    });
});
