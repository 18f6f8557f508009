import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../../solana/programs.ts';
import { askConsensus, consensusOf, isBeforeAlpenglow, mergeConsensus } from './consensus.ts';

const SLOT = 459_652_999;
const UNKNOWN = { era: 'unknown', genesisSlot: null, source: null };
const TOWERBFT = { era: 'towerbft', genesisSlot: null, source: 'certificate' };

const certificate = (block: object) => ({ block, signature: { signature: new Array(192).fill(0), bitmap: [0, 0, 0] } });

function account(slot: number, { owner = SYSTEM_PROGRAM, bitmapBytes = 3, cutBytes = 0 } = {}) {
  const bytes = Buffer.alloc(240 + 3);
  bytes.writeBigUInt64LE(BigInt(slot), 0);
  bytes.writeBigUInt64LE(BigInt(bitmapBytes), 232);
  const data = [bytes.subarray(0, bytes.length - cutBytes).toString('base64'), 'base64'];
  return { context: { slot: 1 }, value: { owner, data, lamports: 2_582_160 } };
}

test('the era is what a certificate or its account proves, and never TowerBFT by the word of a node before 4.3', () => {
  const none = undefined;
  const cases: readonly [name: string, answers: Parameters<typeof consensusOf>[0], expected: object][] = [
    [
      'the certificate of 4.3 and later',
      { certificate: certificate({ slot: SLOT, blockId: [] }), account: none, version: none },
      { era: 'alpenglow', genesisSlot: SLOT, source: 'certificate' },
    ],
    [
      'the certificate of 4.2, with another member',
      { certificate: certificate({ slot: 0, block_id: [] }), account: none, version: '4.2.1' },
      { era: 'alpenglow', genesisSlot: 0, source: 'certificate' },
    ],
    ['null from 4.5', { certificate: null, account: none, version: '4.5.0-alpha.4' }, TOWERBFT],
    ['null from 4.3', { certificate: null, account: none, version: '4.3.2' }, TOWERBFT],
    ['null from 4.2', { certificate: null, account: { value: null }, version: '4.2.1' }, UNKNOWN],
    ['null from another client', { certificate: null, account: none, version: '0.812.30108' }, UNKNOWN],
    ['null and no version', { certificate: null, account: none, version: none }, UNKNOWN],
    [
      'no method, but the account',
      { certificate: none, account: account(SLOT), version: none },
      { era: 'alpenglow', genesisSlot: SLOT, source: 'account' },
    ],
    [
      'null from 4.2, but the account',
      { certificate: null, account: account(SLOT), version: '4.2.1' },
      { era: 'alpenglow', genesisSlot: SLOT, source: 'account' },
    ],
    ['no method and no account', { certificate: none, account: { value: null }, version: '4.4.0' }, TOWERBFT],
    ['nothing', { certificate: none, account: none, version: '4.4.0' }, UNKNOWN],
    [
      'an account of another owner',
      { certificate: none, account: account(SLOT, { owner: TOKEN_PROGRAM }), version: none },
      UNKNOWN,
    ],
    ['an account that is cut', { certificate: none, account: account(SLOT, { cutBytes: 1 }), version: none }, UNKNOWN],
    [
      'an account with a wrong length',
      { certificate: none, account: account(SLOT, { bitmapBytes: 4 }), version: none },
      UNKNOWN,
    ],
  ];
  for (const [name, answers, expected] of cases) assert.deepEqual(consensusOf(answers), expected, name);
  for (const garbage of [
    true,
    7,
    'yes',
    [],
    {},
    { block: null },
    { block: { slot: '7' }, signature: {} },
    { block: { slot: 7 } },
    certificate({ slot: -1 }),
    certificate({ slot: 2 ** 60 }),
  ])
    assert.deepEqual(
      consensusOf({ certificate: garbage, account: none, version: '4.4.0' }),
      UNKNOWN,
      JSON.stringify(garbage),
    );
});

test('a certificate of one node outweighs what the others say', () => {
  const alpenglow = { era: 'alpenglow', genesisSlot: SLOT, source: 'account' } as const;
  const towerbft = { era: 'towerbft', genesisSlot: null, source: 'certificate' } as const;
  const unknown = { era: 'unknown', genesisSlot: null, source: null } as const;
  assert.deepEqual(mergeConsensus([unknown, towerbft, alpenglow]), alpenglow);
  assert.deepEqual(mergeConsensus([unknown, towerbft]), towerbft);
  assert.deepEqual(mergeConsensus([]), unknown);
});

test('a node is asked for more only while its certificate says nothing', async () => {
  const asked: string[] = [];
  const facts = await askConsensus(async (method) => {
    asked.push(method);
    return method === 'getAgGenesisCert' ? certificate({ slot: 5, blockId: [] }) : undefined;
  });
  assert.deepEqual([facts.genesisSlot, asked], [5, ['getAgGenesisCert']]);
});

test('versions of Agave before 4.3 cannot pass the move to Alpenglow', () => {
  const before = ['4.2.1', '3.1.9', '2.0.0'];
  const after = ['4.3.2', '4.4.0', '4.5.0-alpha.4', '4.10.0', '5.0.0', '0.812.30108', 'unknown'];
  assert.deepEqual(before.map(isBeforeAlpenglow), [true, true, true]);
  assert.deepEqual(
    after.map(isBeforeAlpenglow),
    after.map(() => false),
  );
});
