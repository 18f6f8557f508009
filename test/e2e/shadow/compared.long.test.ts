/** Answers of two daemons on one chain are equal; what is planted between them is found. `SHADOW_ANSWERS=100000` compares as many. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { PLANTS, type Plant, plantDifference } from '../../helpers/planted-differences.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { type ShadowBed, startShadowBed } from '../../helpers/shadow-harness.ts';

const missing = await chainMissing();
const ANSWERS = Number(process.env['SHADOW_ANSWERS'] ?? 300);
const PLANTED = 100;
/** Calls at once. */
const TOGETHER = 4;
const NAMES = new Set([
  'getAccountInfo',
  'getTransaction',
  'getBlock',
  'getSignaturesForAddress',
  'getMultipleAccounts',
]);

suite('answers compared with those of another daemon', { skip: missing ?? false }, () => {
  let bed: ShadowBed;
  before(async () => {
    const day = { requestsPerDay: 10_000_000, creditsPerDay: 1e12, bytesPerDay: 2 ** 50 };
    bed = await startShadowBed({ budget: day, maxWaiting: 10_000, keep: { perGroup: 3, differences: 100 } });
  });
  after(() => bed.stop());

  test('equal answers of all products are equal, and no key of a client leaves', async () => {
    const { compared: first } = await bed.report();
    let asked = 0;
    while (asked < ANSWERS) {
      for (let at = 0; at < bed.questions.length; at += TOGETHER)
        await Promise.all(bed.questions.slice(at, at + TOGETHER).map((question) => bed.ask(question)));
      asked += bed.questions.length;
      await bed.compared(first + asked);
    }
    const report = await bed.report();
    // A busy machine may leave a call without an answer in time; that is said as such.
    assert.deepEqual(
      report.groups.filter(({ reason }) => reason !== 'unavailable'),
      [],
    );
    assert.equal(report.different, 0);
    const products = new Set(report.methods.map(({ product }) => product));
    for (const product of ['rpc', 'das', 'photon', 'walletApi', 'enhancedApi'])
      assert.ok(products.has(product), product);
    const names = new Set(report.methods.map(({ method }) => method));
    for (const { name } of bed.questions) assert.ok(names.has(name), `${name} was compared`);
    assert.ok(bed.reached.length >= ANSWERS);
    for (const { url, headers, body } of bed.reached)
      assert.ok(!`${url} ${JSON.stringify(headers)} ${body}`.includes(bed.daemon.key), url);
  });

  test('a hundred planted differences are found and rightly named', async () => {
    const random = createSfc32(49);
    const pick = (below: number) => (below === 0 ? 0 : random.below(below));
    const questions = bed.questions.filter(({ name }) => NAMES.has(name));
    const wrong = {
      name: 'getTransaction',
      path: '/',
      body: { jsonrpc: '2.0', id: 1, method: 'getTransaction', params: ['nonsense'] },
    };
    const kinds = new Set<Plant>();
    let planted = 0;
    for (let turn = 0; planted < PLANTED; turn += 1) {
      const plant = PLANTS[turn % PLANTS.length]!;
      const question =
        plant === 'we-refuse' || plant === 'error-code' ? wrong : questions[random.below(questions.length)]!;
      const { text } = await bed.ask(question, bed.other.apiUrl, bed.other.key);
      const made = plantDifference(text, plant, pick);
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
      kinds.add(plant);
      planted += 1;
    }
    assert.equal(kinds.size, PLANTS.length);
    bed.spoil(null);
    const { groups, different } = await bed.report();
    assert.equal(different, PLANTED);
    const response = await fetch(`${bed.daemon.adminUrl}/v0/admin/shadow/groups/${groups[0]!.id}`);
    const { differences } = (await response.json()) as { differences: { ours: string; theirs: string }[] };
    assert.ok(differences.length >= 1 && differences.length <= 3);
    assert.notEqual(differences[0]!.ours, differences[0]!.theirs);
  });
});
