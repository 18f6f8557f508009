/** Trees of the newest packages of Codama: they leave out lists that are empty, which older ones write. Both are read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseInstructionData } from '@codama/dynamic-parsers';
import { rootNodeFromAnchor } from '@codama/nodes-from-anchor';
import anchor, { type Idl } from '@coral-xyz/anchor';
import { readIdl } from '../../../src/solana/idl/read-idl.ts';

const ADDRESS = 'JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4';
const idl = {
  address: ADDRESS,
  metadata: { name: 'router', version: '0.1.0', spec: '0.1.0' },
  instructions: [
    {
      name: 'route',
      discriminator: [1, 2, 3, 4, 5, 6, 7, 8],
      accounts: [{ name: 'payer', signer: true, writable: true }],
      args: [
        { name: 'plan', type: { vec: { defined: { name: 'Step' } } } },
        { name: 'amount', type: 'u64' },
      ],
    },
    { name: 'close', discriminator: [8, 7, 6, 5, 4, 3, 2, 1], accounts: [], args: [] },
  ],
  types: [{ name: 'Step', type: { kind: 'struct', fields: [{ name: 'percent', type: 'u8' }] } }],
};
const ACCOUNTS = [{ pubkey: ADDRESS, isSigner: true, isWritable: true }];

/** Lists that a node of a tree has in older versions also when they are empty. */
const LISTS: Readonly<Record<string, readonly string[]>> = {
  rootNode: ['additionalPrograms'],
  programNode: ['accounts', 'instructions', 'definedTypes', 'pdas', 'errors', 'docs'],
  instructionNode: [
    'accounts',
    'arguments',
    'docs',
    'extraArguments',
    'remainingAccounts',
    'byteDeltas',
    'subInstructions',
  ],
  instructionAccountNode: ['docs'],
  instructionArgumentNode: ['docs'],
  definedTypeNode: ['docs'],
  structTypeNode: ['fields'],
  structFieldTypeNode: ['docs'],
};

function withLists(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withLists);
  if (value === null || typeof value !== 'object') return value;
  const members = Object.entries(value).map(([name, member]) => [name, withLists(member)] as const);
  const lists = (LISTS[(value as { kind?: string }).kind ?? ''] ?? []).map((name) => [name, []] as const);
  return { ...Object.fromEntries(lists), ...Object.fromEntries(members) };
}

test('the newest trees of Codama are read, with and without their empty lists', () => {
  const tree = rootNodeFromAnchor(idl as unknown as Parameters<typeof rootNodeFromAnchor>[0]);
  const full = withLists(JSON.parse(JSON.stringify(tree)));
  assert.notDeepEqual(full, JSON.parse(JSON.stringify(tree)));
  const coder = new anchor.BorshInstructionCoder(idl as unknown as Idl);
  const amount = 2n ** 64n - 1n;
  const route = coder.encode('route', {
    plan: [{ percent: 60 }, { percent: 40 }],
    amount: new anchor.BN(String(amount)),
  });
  const close = coder.encode('close', {});
  // What the packages do with each other, as the page of other software says.
  assert.throws(() => parseInstructionData(tree as never, route), /not iterable/);
  for (const [name, one] of Object.entries({ tree, full })) {
    const program = readIdl(JSON.stringify(one));
    assert.deepEqual(
      [route, close].map((data) => program?.decode(data, ACCOUNTS, ADDRESS)),
      [
        {
          name: 'route',
          args: { plan: [{ percent: 60 }, { percent: 40 }], amount: String(amount) },
          accounts: [{ name: 'payer', ...ACCOUNTS[0] }],
        },
        { name: 'close', args: {}, accounts: [{ name: 'remaining_0', ...ACCOUNTS[0] }] },
      ],
      name,
    );
  }
});
