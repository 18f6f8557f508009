import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import type { ParsedTransaction } from '../../../src/solana/idl/parse-transaction.ts';
import { runCommand, startDaemon, type TestDaemon } from '../../helpers/daemon.ts';
import { readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { type CaseTransaction, idlText, instructionFault } from '../../helpers/parsed-cases.ts';
import { type NodeTransaction, type ParsedNode, startParsedNode } from './parsed-node.ts';

interface Result {
  readonly signature: string;
  readonly parserStatus: string;
  readonly parserError?: { readonly code: string; readonly message: string };
  readonly parsed?: ParsedTransaction;
  readonly rawTransaction?: {
    readonly slot: number;
    readonly transaction: unknown;
    readonly meta: { readonly fee: number };
    readonly version: unknown;
  };
}

interface Upgrade {
  readonly address: string;
  readonly old: { readonly idl: unknown };
  readonly new: { readonly idl: unknown };
  readonly write: CaseTransaction;
  readonly before: readonly CaseTransaction[];
  readonly after: readonly CaseTransaction[];
}

describe('parsed events', { skip: skipWithoutFixtures }, () => {
  let daemon: TestDaemon;
  let node: ParsedNode;
  let cases: readonly CaseTransaction[];
  let placed: readonly NodeTransaction[];

  before(async () => {
    cases = readJsonFixture<CaseTransaction[]>('parsed/transactions.json');
    const { interfaces } = readJsonFixture<{ interfaces: { address: string; format: string }[] }>(
      'parsed/manifest.json',
    );
    node = await startParsedNode();
    placed = cases.map((one, at) => node.add(1_000 + at, one));
    for (const { address, format } of interfaces)
      node.publish(address, idlText(address), format.startsWith('anchor') ? 'anchor' : 'metadata');
    daemon = await startDaemon({
      chain: { rpcUrl: node.upstream.url },
      config: { plugins: ['access', 'proxy', 'parsed'] },
    });
  });

  after(async () => {
    await daemon?.stop();
    await node?.upstream.stop();
  });

  async function post(body: unknown) {
    const response = await fetch(`${daemon.apiUrl}/v1/parsed-events/transactions?api-key=${daemon.key}`, {
      method: 'POST',
      body: JSON.stringify(body),
    });
    return { status: response.status, json: (await response.json()) as Result[] & { error: string } };
  }

  async function versionsOf(program: string) {
    const response = await fetch(`${daemon.apiUrl}/v1/parsed-events/idls/${program}?api-key=${daemon.key}`);
    const { versions } = (await response.json()) as {
      versions: { source: string; fromSlot: number; toSlot: number | null; instructions: string[] }[];
    };
    return versions;
  }

  test('transactions are decoded by the interfaces that their programs publish', async () => {
    const faults: string[] = [];
    for (let from = 0; from < cases.length; from += 100) {
      const part = placed.slice(from, from + 100);
      const { status, json } = await post({ transactions: part.map(({ signature }) => signature) });
      assert.equal(status, 200);
      assert.equal(json.length, part.length);
      json.forEach(({ parsed, signature, parserStatus }, at) => {
        const { expected } = cases[from + at]!;
        assert.deepEqual([signature, parserStatus], [part[at]!.signature, 'OK']);
        assert.deepEqual(
          [parsed!.slot, parsed!.blockTime, parsed!.fee, parsed!.decodedError ?? null],
          [part[at]!.slot, part[at]!.blockTime, expected.fee, expected.decodedError],
        );
        expected.instructions.forEach((wanted, index) => {
          const fault = wanted === null ? null : instructionFault(parsed!.instructions[index]!, wanted);
          if (fault !== null) faults.push(fault);
        });
      });
    }
    assert.deepEqual(faults.slice(0, 3), [], `${faults.length} faults`);
    // All interfaces were read for the first transaction that needs them, and again only for newer ones.
    assert.ok(node.upstream.callsOf('getMultipleAccounts').length <= 2 * Math.ceil(cases.length / 100));
  });

  test('around an upgrade each transaction is decoded by the interface of its slot', async () => {
    const upgrades = readJsonFixture<Upgrade[]>('parsed/upgrades.json');
    for (const { address, old, new: next, before: first, write, after: second } of upgrades) {
      const expect = async (transactions: readonly NodeTransaction[], wanted: readonly CaseTransaction[]) => {
        const { json } = await post({ transactions: transactions.map(({ signature }) => signature) });
        json.forEach(({ parsed }, at) => {
          wanted[at]!.expected.instructions.forEach((one, index) => {
            const found = parsed!.instructions[index]!;
            if (one !== null && found.programId === address) assert.equal(instructionFault(found, one), null);
          });
        });
      };
      node.publish(address, JSON.stringify(old.idl), 'anchor');
      const earlier = first.map((one, at) => node.add(node.slot + (at === 0 ? 5 : 0), one));
      await expect(earlier, first);
      node.add(node.slot + 1, write);
      node.publish(address, JSON.stringify(next.idl), 'anchor');
      const later = second.map((one, at) => node.add(node.slot + (at === 0 ? 5 : 0), one));
      await expect([...earlier, ...later], [...first, ...second]);
      // What is old is decoded without another look at the chain.
      const calls = node.upstream.callsOf('getMultipleAccounts').length;
      await expect(earlier, first);
      assert.equal(node.upstream.callsOf('getMultipleAccounts').length, calls);
      const versions = await versionsOf(address);
      assert.deepEqual(
        versions.slice(0, 2).map(({ source, toSlot }) => [source, toSlot]),
        [
          ['chain', null],
          ['chain', versions[0]!.fromSlot],
        ],
      );
      assert.ok(versions[0]!.fromSlot <= later[0]!.slot && versions[0]!.fromSlot > earlier.at(-1)!.slot);
      assert.ok(versions[0]!.instructions.length > 0);
    }
  });

  test('a program without an interface has no versions; an account that is no program is refused', async () => {
    assert.deepEqual(await versionsOf(encode32(Buffer.alloc(32, 9))), []);
    const response = await fetch(`${daemon.apiUrl}/v1/parsed-events/idls/nonsense?api-key=${daemon.key}`);
    assert.equal(response.status, 400);
  });

  test('answers keep the order and what is given twice; what is missing is an element', async () => {
    const [first, second] = placed.map(({ signature }) => signature) as [string, string];
    const unknown = '1'.repeat(64);
    const { json } = await post({ transactions: [second, unknown, first, second], commitment: 'finalized' });
    assert.deepEqual(
      json.map(({ signature, parserStatus }) => [signature, parserStatus]),
      [
        [second, 'OK'],
        [unknown, 'ERROR'],
        [first, 'OK'],
        [second, 'OK'],
      ],
    );
    assert.deepEqual(json[1], {
      signature: unknown,
      parserStatus: 'ERROR',
      parserError: { code: 'transaction_not_found', message: 'transaction not found' },
    });
    assert.equal(
      (node.upstream.callsOf('getTransaction').at(-1)!.params as [string, { commitment: string }])[1].commitment,
      'finalized',
    );
  });

  test('the raw transaction comes in the encoding that was asked for', async () => {
    const [{ signature, one }] = placed as [NodeTransaction];
    const raw = async (members: object) =>
      (await post({ transactions: [signature], ...members })).json[0]!.rawTransaction;
    assert.equal(await raw({}), undefined);
    assert.equal(await raw({ rawTransaction: 'none' }), undefined);
    const base64 = (await raw({ rawTransaction: 'base64' }))!;
    assert.deepEqual(base64.transaction, [one.wire, 'base64']);
    assert.deepEqual([base64.slot, base64.meta.fee], [1_000, one.meta['fee']]);
    for (const members of [{ rawTransaction: 'json' }, { includeRawTransaction: true }]) {
      const { message } = (await raw(members))!.transaction as {
        message: { instructions: { programIdIndex: number }[] };
      };
      assert.equal(typeof message.instructions[0]!.programIdIndex, 'number');
    }
    const { message } = (await raw({ rawTransaction: 'jsonParsed' }))!.transaction as {
      message: { accountKeys: object[] };
    };
    assert.ok('source' in message.accountKeys[0]!);
  });

  test('invalid bodies are refused with the reason', async () => {
    const { signature } = placed[0]!;
    const refused: readonly (readonly [unknown, RegExp])[] = [
      [{}, /transactions must be an array/],
      [[], /must be an object/],
      [{ transactions: ['nonsense'] }, /transactions\[0\] must be a signature/],
      [{ transactions: [signature], more: 1 }, /unknown field `more`/],
      [{ transactions: [signature], commitment: null }, /commitment must not be null/],
      [{ transactions: [signature], commitment: 'processed' }, /commitment must be one of confirmed, finalized/],
      [{ transactions: [signature], rawTransaction: 'base58' }, /rawTransaction must be one of/],
      [{ transactions: [signature], rawTransaction: 'json', includeRawTransaction: true }, /exclude each other/],
      [{ transactions: Array.from({ length: 101 }, () => signature) }, /at most 100/],
    ];
    for (const [body, reason] of refused) {
      const { status, json } = await post(body);
      assert.equal(status, 400, JSON.stringify(body).slice(0, 80));
      assert.match(json.error, reason);
    }
    assert.deepEqual(await post({ transactions: [] }), { status: 200, json: [] });
  });

  test('explain prints the same in the terminal, as a tree of instructions; what is wrong has an exit code', async () => {
    const explain = async (...args: string[]) => await runCommand(['explain', ...args, '--config', daemon.configFile]);
    const at = cases.findIndex(
      ({ meta, expected }) =>
        (meta['innerInstructions'] as readonly unknown[]).length > 0 &&
        expected.instructions.filter((one) => one?.kind === 'decoded').length > 1,
    );
    const { signature } = placed[at]!;
    const { parsed } = (await post({ transactions: [signature] })).json[0]!;
    const { code, out, err } = await explain(signature);
    assert.deepEqual([code, err], [0, '']);
    const lines = out.split('\n');
    assert.equal(lines[0], signature);
    assert.match(
      lines[1]!,
      new RegExp(
        `^(succeeded|FAILED) in slot ${parsed!.slot}, 20\\d\\d-.*; fee 0\\.0\\d+ SOL, paid by ${parsed!.feePayer}$`,
      ),
    );
    for (const { instructionName, programName, innerInstructionIndex, instructionIndex } of parsed!.instructions) {
      const number = `${instructionIndex + 1}${innerInstructionIndex === null ? '' : `.${innerInstructionIndex + 1}`}`;
      const wanted = instructionName === null ? `${number} ` : `${number} ${programName}.${instructionName}  `;
      assert.ok(
        lines.some((line) => line.replace(/^[│├└─ ]*/u, '').startsWith(wanted)),
        `${wanted} in\n${out}`,
      );
    }
    for (const { decoded } of parsed!.instructions)
      for (const { name, pubkey } of decoded?.accounts ?? [])
        assert.ok(
          lines.some((line) => line.includes(`${name} `) && line.includes(pubkey)),
          `${name} ${pubkey}`,
        );
    assert.equal(
      lines.filter((line) => line === 'moved').length,
      parsed!.nativeTransfers.length + parsed!.tokenTransfers.length > 0 ? 1 : 0,
    );
    const cutAt = cases.findIndex(({ expected }) => expected.instructions.some((one) => one?.kind === 'truncated'));
    const { known, program } = cases[cutAt]!.expected.instructions.find((one) => one?.kind === 'truncated')!;
    assert.match(
      (await explain(placed[cutAt]!.signature)).out,
      new RegExp(` ${program}\\.${known}  \\w+: arguments not decoded\n`),
    );

    const json = await explain(signature, '--json');
    assert.deepEqual(JSON.parse(json.out), (await post({ transactions: [signature] })).json[0]);

    const missing = await explain('1'.repeat(64), '--json');
    assert.deepEqual([missing.code, missing.out, JSON.parse(missing.err).code], [75, '', 'PARSED_NOT_FOUND']);
    const wrong = await explain('nonsense');
    assert.deepEqual([wrong.code, wrong.err], [64, 'parhelion: PARSED_USAGE: nonsense is not a signature in base58']);
    assert.equal((await explain()).code, 64);
    node.upstream.on('getTransaction', ({ id }) => ({
      chunks: [JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32_603, message: 'broken' } })],
    }));
    const broken = await explain(signature);
    assert.equal(broken.code, 75);
    assert.match(broken.err, /^parhelion: PARSED_UNAVAILABLE: /);
  });
});
