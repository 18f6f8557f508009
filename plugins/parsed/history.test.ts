import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { OWN_WORK } from '../../src/ports/access.ts';
import { type LoadedRow, NAMED, positionOf, type WalkPage } from '../../src/ports/address-history.ts';
import { type ProgramInterface, readIdl } from '../../src/solana/idl/read-idl.ts';
import { createWords } from '../../src/solana/parsers/parser.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { madeTransaction, PAYER } from '../../test/helpers/parsed-found.ts';
import { type ParsedConfig, parsedConfig } from './config.ts';
import { historyOf, type ParsedHistoryParts, scanOf } from './history.ts';
import { FOREVER, type Interfaces, type Learned, NOW } from './interfaces/index.ts';
import { readHistory, readScan } from './requests.ts';

const PROGRAM = 'JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4';
const CALL = { caller: null, tenant: OWN_WORK, signal: new AbortController().signal };

/** An interface with one instruction, whose data are this byte. */
const idl = (name: string, tag: number): ProgramInterface =>
  readIdl(
    JSON.stringify({
      address: PROGRAM,
      metadata: { name: 'made' },
      types: [],
      instructions: [{ name, discriminator: [tag], accounts: [], args: [] }],
    }),
  )!;

function rowOf(slot: number, data: number, isFailed = false): LoadedRow {
  const { signature, block, tx } = madeTransaction(slot, slot, PROGRAM, [data]);
  return {
    n: positionOf(slot, 0),
    flags: NAMED,
    signature,
    slot,
    time: 1_760_000_000,
    tx: isFailed ? { ...tx, error: 'AccountNotFound' } : tx,
    block: block as LoadedRow['block'],
  };
}

/** `versions`: of the program, all of which are valid in no slot; `learned`: slots of the calls. */
function create(pages: readonly WalkPage[], versions: readonly ProgramInterface[] = []) {
  const tokens: (readonly [number, string | undefined])[] = [];
  const state = { versions, learned: [] as number[], tokens };
  const interfaces: Pick<Interfaces, 'learn'> = {
    async learn(slots) {
      const slot = slots.get(PROGRAM);
      if (slot !== undefined) state.learned.push(slot);
      const kept = slot === NOW ? state.versions : state.versions.slice(0, 1);
      const versions = kept.map((program) => ({ from: 0, to: FOREVER, program, source: 'chain' }) as const);
      const learned: Learned = { find: () => null, versionsOf: () => versions, with: () => learned };
      return learned;
    },
  };
  const parts: ParsedHistoryParts = {
    async open() {
      return {
        async *pages() {
          yield* pages;
        },
        placeText(n, signature) {
          tokens.push([n, signature]);
          return '1:1';
        },
        placeOf: () => 0,
        texts: async () => [],
      };
    },
    clock: createManualClock(),
    config: Value.Default(parsedConfig, {}) as ParsedConfig,
    elements: { interfaces, ownOf: async () => null, words: createWords(null) },
  };
  return { state, parts };
}

const scanFor = (...instructions: string[]) =>
  readScan({
    address: PAYER,
    returnShape: 'signatures',
    match: { programs: [{ programId: PROGRAM, instructions, scope: 'transaction' }] },
  });

const lastPage = (...rows: LoadedRow[]): WalkPage => ({ rows, lastN: rows.at(-1)!.n, end: 'complete' });

test('where no interface is known for a slot, any version counts', async () => {
  const rows = [rowOf(9, 1), rowOf(8, 2)];
  const { parts } = create([lastPage(...rows)], [idl('swap', 1)]);
  const { data } = JSON.parse((await scanOf(parts, scanFor('swap'), CALL)).text) as { data: { slot: number }[] };
  assert.deepEqual(
    data.map(({ slot }) => slot),
    [9],
  );
});

test('a scan for a name finds calls whose arguments do not fit', async () => {
  const program = readIdl(
    JSON.stringify({
      address: PROGRAM,
      metadata: { name: 'made' },
      instructions: [{ name: 'create_v2', discriminator: [1], accounts: [], args: [{ name: 'n', type: 'u64' }] }],
    }),
  )!;
  const { parts } = create([lastPage(rowOf(9, 1), rowOf(8, 2))], [program]);
  const { data } = JSON.parse((await scanOf(parts, scanFor('create_v2'), CALL)).text) as { data: { slot: number }[] };
  assert.deepEqual(
    data.map(({ slot }) => slot),
    [9],
  );
});

test('a name that is not known is looked up on the chain once more, then refused and charged', async () => {
  const { parts, state } = create([lastPage(rowOf(9, 1))], [idl('swap', 1), idl('brand_new', 2)]);
  await scanOf(parts, scanFor('swap'), CALL);
  assert.ok(!state.learned.includes(NOW));
  await scanOf(parts, scanFor('brand_new'), CALL);
  assert.ok(state.learned.includes(NOW));
  await assert.rejects(scanOf(parts, scanFor('swap', 'no_such'), CALL), {
    status: 400,
    isCharged: true,
    message: `no interface of ${PROGRAM} has an instruction \`no_such\``,
  });
});

test('a token carries the signature of the last row, also of one that is not shown', async () => {
  const [shown, hidden] = [rowOf(9, 1), rowOf(8, 1, true)];
  const page: WalkPage = { rows: [shown, hidden], lastN: hidden.n, end: 'scanned' };
  const history = create([page]);
  await historyOf(history.parts, readHistory({ address: PAYER }), CALL);
  assert.deepEqual(history.state.tokens, [[hidden.n, hidden.signature]]);
  const scan = create([page], [idl('swap', 1)]);
  await scanOf(scan.parts, scanFor('swap'), CALL);
  assert.deepEqual(scan.state.tokens, [[hidden.n, hidden.signature]]);
  // A row that a fork removed has none.
  const removed = create([{ ...page, rows: [shown] }]);
  await historyOf(removed.parts, readHistory({ address: PAYER }), CALL);
  assert.deepEqual(removed.state.tokens, [[hidden.n, undefined]]);
});
