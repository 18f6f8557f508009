import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, suite, test } from 'node:test';
import {
  createInitializeInterestBearingMintInstruction,
  createInitializeMetadataPointerInstruction,
  createInitializeMintInstruction,
  createInitializeTransferFeeConfigInstruction,
  ExtensionType,
  getMintLen,
  TOKEN_2022_PROGRAM_ID,
} from '@solana/spl-token';
import {
  AddressLookupTableProgram,
  Authorized,
  Keypair,
  LAMPORTS_PER_SOL,
  Lockup,
  type PublicKey,
  StakeProgram,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
  TransactionInstruction,
} from '@solana/web3.js';
import * as fc from 'fast-check';
import { parseExact, stringify } from '../../../src/lib/json.ts';
import { zstdFrame } from '../../../src/lib/zstd.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';

const zstd = (() => {
  try {
    execFileSync('zstd', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    console.error('SKIPPED: frames are not decoded with zstd, which is not installed');
    return false;
  }
})();

test('zstd frames contain any data', { skip: !zstd }, () => {
  const decoded = (data: Uint8Array) => execFileSync('zstd', ['-d', '-c'], { input: zstdFrame(data) });
  const large = new Uint8Array(300_000).map((_, at) => (at > 200_000 ? at * 7 : 0));
  for (const data of [new Uint8Array(0), new Uint8Array([1]), new Uint8Array(165), large]) {
    assert.deepEqual(new Uint8Array(decoded(data)), data);
  }
  assert.ok(zstdFrame(new Uint8Array(100_000)).length < 100);
  const pieces = fc.array(fc.record({ byte: fc.nat(255), count: fc.nat(40) }), { maxLength: 12 });
  fc.assert(
    fc.property(pieces, (runs) => {
      const data = Uint8Array.from(runs.flatMap(({ byte, count }) => Array<number>(count).fill(byte)));
      assert.deepEqual(new Uint8Array(decoded(data)), data);
    }),
    { numRuns: 15 },
  );
});

test('JSON is read with every digit of its whole numbers', () => {
  const big = fc
    .bigInt({ min: -(2n ** 70n), max: 2n ** 70n })
    .map((value) => (Number.isSafeInteger(Number(value)) ? Number(value) : value));
  const text = fc.string({ unit: fc.constantFrom('"', '\\', '1', '9', ':', ' ', '\u0000') });
  const value = fc.letrec((tie) => ({
    node: fc.oneof(
      { maxDepth: 3 },
      big,
      text,
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
      fc.array(tie('node')),
      fc.dictionary(
        text.filter((name) => name !== '__proto__'),
        tie('node'),
      ),
    ),
  })).node;
  fc.assert(
    fc.property(value, (given) => {
      const written = stringify(given);
      assert.equal(stringify(parseExact(written)), written);
    }),
    { numRuns: 300 },
  );
});

suite('a local chain shows what a node shows', { skip: (await chainMissing()) ?? false }, () => {
  let chain: TestChain;
  const payer = Keypair.generate();
  before(async () => {
    chain = await startChain();
    await chain.fund(payer.publicKey.toString(), 100 * LAMPORTS_PER_SOL);
  });
  after(() => chain.stop());

  async function ask<T>(method: string, ...params: unknown[]): Promise<T> {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(chain.rpcUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    const { result, error } = (await response.json()) as { result?: T; error?: object };
    assert.equal(error, undefined, `${method}: ${JSON.stringify(error)}`);
    return result as T;
  }
  const parsed = async (key: PublicKey | string) => {
    const { value } = await ask<{ value: { data: { program: string; parsed: { type: string; info: never } } } }>(
      'getAccountInfo',
      key.toString(),
      { encoding: 'jsonParsed', commitment: 'confirmed' },
    );
    return value.data;
  };
  const send = (instructions: TransactionInstruction[], ...signers: Keypair[]) =>
    sendAndConfirmTransaction(chain.connection, new Transaction().add(...instructions), [payer, ...signers]);
  const instructionsOf = async (signature: string) => {
    const found = await chain.connection.getParsedTransaction(signature, { maxSupportedTransactionVersion: 0 });
    return found!.transaction.message.instructions.map((one) =>
      'parsed' in one ? [one.program, one.parsed.type] : [one.programId.toString()],
    );
  };

  test('sysvars, programs, stake accounts and tables', async () => {
    const clock = await parsed('SysvarC1ock11111111111111111111111111111111');
    assert.deepEqual([clock.program, clock.parsed.type], ['sysvar', 'clock']);
    assert.equal(clock.parsed.info['slot'], await chain.connection.getSlot('confirmed'));
    for (const [key, type] of [
      ['SysvarRent111111111111111111111111111111111', 'rent'],
      ['SysvarEpochSchedu1e111111111111111111111111', 'epochSchedule'],
      ['SysvarS1otHashes111111111111111111111111111', 'slotHashes'],
      ['SysvarStakeHistory1111111111111111111111111', 'stakeHistory'],
      ['SysvarS1otHistory11111111111111111111111111', 'slotHistory'],
      ['SysvarRecentB1ockHashes11111111111111111111', 'recentBlockhashes'],
      ['SysvarEpochRewards1111111111111111111111111', 'epochRewards'],
      ['SysvarLastRestartS1ot1111111111111111111111', 'lastRestartSlot'],
    ] as const) {
      assert.equal((await parsed(key)).parsed.type, type);
    }
    const program = await parsed(TOKEN_2022_PROGRAM_ID);
    assert.deepEqual([program.program, program.parsed.type], ['bpf-upgradeable-loader', 'program']);
    const programData = await parsed(program.parsed.info['programData'] as string);
    assert.equal(programData.parsed.type, 'programData');

    const stake = Keypair.generate();
    const created = await send(
      StakeProgram.createAccount({
        fromPubkey: payer.publicKey,
        stakePubkey: stake.publicKey,
        authorized: new Authorized(payer.publicKey, payer.publicKey),
        lockup: new Lockup(0, 0, payer.publicKey),
        lamports: 2 * LAMPORTS_PER_SOL,
      }).instructions,
      stake,
    );
    assert.deepEqual(await instructionsOf(created), [
      ['system', 'createAccount'],
      ['stake', 'initialize'],
    ]);
    const shown = await parsed(stake.publicKey);
    assert.deepEqual([shown.program, shown.parsed.type], ['stake', 'initialized']);
    const meta = shown.parsed.info['meta'] as { authorized: object };
    assert.deepEqual(meta.authorized, { staker: payer.publicKey.toString(), withdrawer: payer.publicKey.toString() });

    const recentSlot = (await chain.connection.getSlot('confirmed')) - 1;
    const [create, table] = AddressLookupTableProgram.createLookupTable({
      authority: payer.publicKey,
      payer: payer.publicKey,
      recentSlot,
    });
    const extend = AddressLookupTableProgram.extendLookupTable({
      lookupTable: table,
      authority: payer.publicKey,
      payer: payer.publicKey,
      addresses: [stake.publicKey],
    });
    assert.deepEqual(await instructionsOf(await send([create, extend])), [
      ['address-lookup-table', 'createLookupTable'],
      ['address-lookup-table', 'extendLookupTable'],
    ]);
    assert.deepEqual((await parsed(table)).parsed.info['addresses'], [stake.publicKey.toString()]);
  });

  test('extensions of Token-2022, and their instructions', async () => {
    const mint = Keypair.generate();
    const types = [ExtensionType.TransferFeeConfig, ExtensionType.InterestBearingConfig, ExtensionType.MetadataPointer];
    const space = getMintLen(types);
    const authority = payer.publicKey;
    const args = [mint.publicKey, authority] as const;
    const signature = await send(
      [
        SystemProgram.createAccount({
          fromPubkey: payer.publicKey,
          newAccountPubkey: mint.publicKey,
          space,
          lamports: await chain.connection.getMinimumBalanceForRentExemption(space),
          programId: TOKEN_2022_PROGRAM_ID,
        }),
        createInitializeTransferFeeConfigInstruction(...args, authority, 50, 5000n, TOKEN_2022_PROGRAM_ID),
        createInitializeInterestBearingMintInstruction(...args, 300, TOKEN_2022_PROGRAM_ID),
        createInitializeMetadataPointerInstruction(...args, mint.publicKey, TOKEN_2022_PROGRAM_ID),
        createInitializeMintInstruction(mint.publicKey, 6, authority, null, TOKEN_2022_PROGRAM_ID),
      ],
      mint,
    );
    assert.deepEqual(
      (await instructionsOf(signature)).map(([, type]) => type),
      [
        'createAccount',
        'initializeTransferFeeConfig',
        'initializeInterestBearingConfig',
        'initializeMetadataPointer',
        'initializeMint',
      ],
    );
    const { program, parsed: shown } = await parsed(mint.publicKey);
    assert.equal(program, 'spl-token-2022');
    const extensions = shown.info['extensions'] as { extension: string; state: Record<string, unknown> }[];
    assert.deepEqual(
      extensions.map((one) => one.extension),
      ['transferFeeConfig', 'interestBearingConfig', 'metadataPointer'],
    );
    assert.deepEqual(extensions[0]?.state['newerTransferFee'], {
      epoch: 0,
      maximumFee: 5000,
      transferFeeBasisPoints: 50,
    });
    assert.equal(extensions[1]?.state['currentRate'], 300);
    assert.equal(extensions[2]?.state['metadataAddress'], mint.publicKey.toString());
  });

  test('base64+zstd of accounts, and base64 as the default for several', async () => {
    const key = 'So11111111111111111111111111111111111111112';
    const config = { encoding: 'base64+zstd', commitment: 'confirmed' };
    const one = await ask<{ value: { data: [string, string] } }>('getAccountInfo', key, config);
    assert.equal(one.value.data[1], 'base64+zstd');
    assert.equal(Buffer.from(one.value.data[0], 'base64').readUInt32LE(0), 0xfd2fb528);
    const many = await ask<{ value: { data: [string, string] }[] }>('getMultipleAccounts', [key]);
    assert.deepEqual([many.value[0]?.data[1], Buffer.from(many.value[0]!.data[0], 'base64').length], ['base64', 82]);
  });

  test('a transaction whose program is absent lands, costs its fee and does nothing', async () => {
    const { blockhash } = await chain.connection.getLatestBlockhash();
    const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash }).add(
      new TransactionInstruction({ programId: Keypair.generate().publicKey, keys: [], data: Buffer.alloc(1) }),
    );
    transaction.sign(payer);
    const before = await chain.connection.getBalance(payer.publicKey);
    const signature = await chain.connection.sendRawTransaction(transaction.serialize(), { skipPreflight: true });
    const { meta } = (await ask<{ meta: Record<string, unknown> }>('getTransaction', signature, {
      commitment: 'confirmed',
    }))!;
    assert.deepEqual(
      [meta['err'], meta['fee'], meta['logMessages'], meta['innerInstructions'], meta['costUnits']],
      ['ProgramAccountNotFound', 5000, null, null, 1028],
    );
    assert.equal(await chain.connection.getBalance(payer.publicKey), before - 5000);
  });

  test('counts and slots are those of the commitment', async () => {
    const count = (commitment: string) => ask<number>('getTransactionCount', { commitment });
    const [finalized, confirmed] = [await count('finalized'), await count('confirmed')];
    await chain.fund(Keypair.generate().publicKey.toString(), LAMPORTS_PER_SOL);
    assert.deepEqual([await count('finalized'), await count('confirmed')], [finalized, confirmed + 1]);
    for (const commitment of ['processed', 'confirmed', 'finalized']) {
      const { context } = await ask<{ context: { slot: number } }>('getLatestBlockhash', { commitment });
      assert.equal(context.slot, await ask<number>('getSlot', { commitment }));
      const transfer = SystemProgram.transfer({
        fromPubkey: payer.publicKey,
        toPubkey: Keypair.generate().publicKey,
        lamports: LAMPORTS_PER_SOL,
      });
      const { blockhash } = await chain.connection.getLatestBlockhash();
      const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash }).add(transfer);
      transaction.sign(payer);
      const options = { encoding: 'base64', preflightCommitment: commitment, minContextSlot: context.slot };
      assert.equal(
        typeof (await ask('sendTransaction', transaction.serialize().toString('base64'), options)),
        'string',
      );
    }
  });
});
