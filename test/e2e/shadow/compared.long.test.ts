/**
 * Answers of two daemons on one chain are equal, on the local chain and in front of a real node; what is planted between them is found.
 * `PARHELION_SHADOW_ANSWERS=100000` compares as many.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { agaveMissing } from '../../helpers/agave.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { PLANTS, type Plant, plantDifference } from '../../helpers/planted-differences.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type ShadowChain, startAgaveShadowChain, startLocalShadowChain } from '../../helpers/shadow-chain.ts';
import { FAMILIES, type ShadowBed, startShadowBed } from '../../helpers/shadow-harness.ts';

const ANSWERS = Number(process.env['PARHELION_SHADOW_ANSWERS'] ?? 300);
const PLANTED = 100;
const MIN_KINDS = 10;
/** Calls at once. */
const TOGETHER = 6;
/** Answers between two looks at the report. */
const ROUND = 1_000;
const DAY = { requestsPerDay: 10_000_000, creditsPerDay: 1e12, bytesPerDay: 2 ** 50 };

const startBed = async (chain: Promise<ShadowChain>) =>
  startShadowBed(await chain, { budget: DAY, maxWaiting: 10_000, keep: { perGroup: 3, differences: 100 } });

/** Asks everything in turns until so many answers were compared. */
async function equalAnswers(bed: ShadowBed): Promise<void> {
  const { compared: first } = await bed.report();
  const left = { asked: 0 };
  const worker = async (until: number) => {
    while (left.asked < until) {
      const question = bed.questions[left.asked % bed.questions.length]!;
      left.asked += 1;
      await bed.ask(question);
    }
  };
  while (left.asked < ANSWERS) {
    const until = Math.min(ANSWERS, left.asked + ROUND);
    await Promise.all(Array.from({ length: TOGETHER }, () => worker(until)));
    const { groups } = await bed.compared(first + left.asked);
    // A busy machine may leave a call without an answer in time; that is said as such.
    assert.deepEqual(
      groups.filter(({ reason }) => reason !== 'unavailable' && reason !== 'lag'),
      [],
    );
  }
  const report = await bed.report();
  assert.equal(report.different, 0);
  const names = new Set(report.methods.map(({ method }) => method));
  for (const { name } of bed.questions) assert.ok(names.has(name), `${name} was compared`);
  assert.deepEqual(new Set(bed.questions.map(({ family }) => family)), new Set(FAMILIES));
  const { compared, equal, explained, unanswered } = report;
  console.error(`${compared} answers: ${equal} equal, ${explained} explained, ${unanswered} not answered`);
}

const noChain = (await chainMissing()) ?? (await lightMissing());

suite('answers compared with those of another daemon', { skip: noChain ?? false }, () => {
  let bed: ShadowBed;
  before(async () => {
    bed = await startBed(startLocalShadowChain());
  });
  after(() => bed.stop());

  test('equal answers of all products are equal, and no key of a client leaves', async () => {
    await equalAnswers(bed);
    assert.equal((await bed.report()).groups.filter(({ reason }) => reason === 'lag').length, 0, 'nothing moves here');
    assert.ok(bed.reached.length >= Math.min(ANSWERS, 10_000));
    for (const { url, headers, body } of bed.reached)
      assert.ok(!`${url} ${JSON.stringify(headers)} ${body}`.includes(bed.daemon.key), url);
  });

  test('a hundred planted differences in answers of all products are found and rightly named', async () => {
    const random = createSfc32(49);
    const pick = (below: number) => (below === 0 ? 0 : random.below(below));
    const refused = {
      family: 'rpc',
      name: 'getTransaction',
      path: '/',
      body: { jsonrpc: '2.0', id: 1, method: 'getTransaction', params: ['nonsense'] },
    } as const;
    const kinds = new Map<Plant, number>();
    const families = new Map<string, number>();
    const first = await bed.report();
    for (let turn = 0, planted = 0; planted < PLANTED; turn += 1) {
      const plant = PLANTS[turn % PLANTS.length]!;
      const family = FAMILIES[random.below(FAMILIES.length)]!;
      const ofFamily = bed.questions.filter((question) => question.family === family);
      const isError = plant === 'we-refuse' || plant === 'error-code';
      const question = isError ? refused : ofFamily[random.below(ofFamily.length)]!;
      const { text } = await bed.ask(question, bed.other.apiUrl, bed.other.key);
      const made = plantDifference(text, plant, pick, question.name);
      if (made === null) continue;
      bed.spoil(() => made);
      const before = await bed.report();
      await bed.ask(question);
      const report = await bed.compared(before.compared + before.unanswered + 1);
      const countOf = (id: string) => before.groups.find((one) => one.id === id)?.count ?? 0;
      const grown = report.groups.filter(({ id, count }) => count > countOf(id));
      assert.deepEqual(
        grown.map(({ method, path, kind, reason }) => ({ method, path, kind, reason })),
        [{ method: question.name, path: made.path, kind: plant, reason: null }],
        made.text,
      );
      kinds.set(plant, (kinds.get(plant) ?? 0) + 1);
      families.set(question.family, (families.get(question.family) ?? 0) + 1);
      planted += 1;
    }
    bed.spoil(null);
    console.error(`planted by kind: ${JSON.stringify([...kinds])}; by product: ${JSON.stringify([...families])}`);
    assert.equal(kinds.size, PLANTS.length);
    assert.ok(kinds.size >= MIN_KINDS);
    assert.deepEqual(new Set(families.keys()), new Set(FAMILIES));
    const { groups, different } = await bed.report();
    assert.equal(different - first.different, PLANTED);
    const response = await fetch(`${bed.daemon.adminUrl}/v0/admin/shadow/groups/${groups[0]!.id}`);
    const { differences } = (await response.json()) as { differences: { ours: string; theirs: string }[] };
    assert.ok(differences.length >= 1 && differences.length <= 3);
    assert.notEqual(differences[0]!.ours, differences[0]!.theirs);
  });
});

suite('answers compared in front of a real node', { skip: noChain ?? agaveMissing() ?? false }, () => {
  let bed: ShadowBed;
  before(async () => {
    bed = await startBed(startAgaveShadowChain());
  });
  after(() => bed.stop());

  test('equal answers of all products are equal while the chain goes on', async () => {
    await equalAnswers(bed);
  });
});
