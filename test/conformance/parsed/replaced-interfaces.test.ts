import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { deflateSync } from 'node:zlib';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  SystemProgram,
  Transaction,
  TransactionInstruction,
} from '@solana/web3.js';
import { findLightAssets } from '../../../packages/local-chain/chain.ts';
import { anchorAddress, anchorText } from '../../../src/solana/idl/idl-accounts.ts';
import type { ParsedTransaction } from '../../../src/solana/idl/parse-transaction.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';

/** A program of Anchor that keeps its own instructions for the IDL account. */
const PROGRAM = new PublicKey('compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq');
const TAG = Buffer.from('40f4bc78a7e9690a', 'hex');
const ACCOUNT = new PublicKey(anchorAddress(PROGRAM.toBase58())!);
const BASE = PublicKey.findProgramAddressSync([], PROGRAM)[0];

/** Every instruction for the IDL account is one of this interface. */
const idlText = (name: string, length: number): string =>
  JSON.stringify({
    address: PROGRAM.toBase58(),
    metadata: { name: 'compression', version: '0.1.0', spec: '0.1.0' },
    instructions: [{ name, discriminator: [...TAG], accounts: [], args: [] }],
    docs: [Array.from({ length }, (_, at) => Math.imul(at + 1, 2_654_435_761).toString(36)).join('')],
  });

interface Sent {
  readonly signature: string;
  /** The name that the interface on the chain gives to its instructions after this transaction; null without one. */
  readonly name: string | null;
}

/** Who publishes, replaces and takes back the interface. Each transaction is in a block of its own. */
async function createAuthority(chain: TestChain) {
  const payer = Keypair.generate();
  await chain.fund(payer.publicKey.toBase58(), 1_000 * LAMPORTS_PER_SOL);
  const sent: Sent[] = [];
  const signer = { pubkey: payer.publicKey, isSigner: true, isWritable: true };
  const writable = (pubkey: PublicKey) => ({ pubkey, isSigner: false, isWritable: true });
  const readable = (pubkey: PublicKey) => ({ pubkey, isSigner: false, isWritable: false });
  const idl = (variant: number, keys: TransactionInstruction['keys'], rest: Buffer = Buffer.alloc(0)) =>
    new TransactionInstruction({ programId: PROGRAM, keys, data: Buffer.concat([TAG, Buffer.of(variant), rest]) });
  const u64 = (value: number) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt(value));
    return bytes;
  };

  async function send(instructions: readonly TransactionInstruction[], others: readonly Keypair[] = [], fails = false) {
    const transaction = new Transaction().add(...instructions);
    transaction.feePayer = payer.publicKey;
    transaction.recentBlockhash = (await chain.connection.getLatestBlockhash()).blockhash;
    transaction.sign(payer, ...others);
    const signature = await chain.connection.sendRawTransaction(transaction.serialize(), { skipPreflight: true });
    const found = await chain.connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
    assert.equal(found?.meta?.err !== null, fails, found?.meta?.logMessages?.join('\n'));
    const account = await chain.connection.getAccountInfo(ACCOUNT);
    const text = account === null ? null : anchorText(account.owner.toBase58(), account.data, PROGRAM.toBase58());
    const shown = text === null ? null : (JSON.parse(text) as { instructions: [{ name: string }] });
    sent.push({ signature, name: shown?.instructions[0].name ?? null });
  }

  const writes = (target: PublicKey, text: string, size: number) => {
    const bytes = deflateSync(text);
    return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => {
      const chunk = bytes.subarray(at * size, (at + 1) * size);
      return idl(2, [writable(target), signer], Buffer.concat([u64(chunk.length).subarray(0, 4), chunk]));
    });
  };

  return {
    sent,
    create: () =>
      send([
        idl(
          0,
          [signer, writable(ACCOUNT), readable(BASE), readable(SystemProgram.programId), readable(PROGRAM)],
          u64(5_000),
        ),
      ]),
    async write(text: string, size: number) {
      for (const one of writes(ACCOUNT, text, size)) await send([one]);
    },
    /** As `anchor idl upgrade` does it; `inOne`: the last write and the copy are one transaction. */
    async upgrade(text: string, size: number, { inOne = false, staysOpen = false } = {}) {
      const buffer = Keypair.generate();
      const space = 44 + deflateSync(text).length;
      const account = SystemProgram.createAccount({
        fromPubkey: payer.publicKey,
        newAccountPubkey: buffer.publicKey,
        programId: PROGRAM,
        space,
        lamports: await chain.connection.getMinimumBalanceForRentExemption(space),
      });
      await send([account, idl(1, [writable(buffer.publicKey), signer])], [buffer]);
      const steps = writes(buffer.publicKey, text, size);
      const copy = idl(3, [writable(buffer.publicKey), writable(ACCOUNT), signer]);
      for (const one of inOne ? steps.slice(0, -1) : steps) await send([one]);
      await send(inOne ? [steps.at(-1)!, copy] : [copy]);
      if (!staysOpen) await send([idl(5, [writable(buffer.publicKey), signer, writable(payer.publicKey)])]);
    },
    close: () => send([idl(5, [writable(ACCOUNT), signer, writable(payer.publicKey)])]),
    /** Names the account and changes nothing, or fails. */
    mention: (fails: boolean) =>
      fails
        ? send([idl(2, [writable(ACCOUNT), signer], Buffer.from('ffffffff', 'hex'))], [], true)
        : send([
            SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: BASE, lamports: LAMPORTS_PER_SOL }),
            idl(4, [writable(ACCOUNT), signer], payer.publicKey.toBuffer()),
          ]),
  };
}

async function namesOf(chain: TestChain, sent: readonly Sent[]) {
  const daemon = await startDaemon({
    chain: { rpcUrl: chain.rpcUrl },
    config: { plugins: ['access', 'proxy', 'parsed'] },
  });
  try {
    const names: (string | null)[] = [];
    for (let from = 0; from < sent.length; from += 100) {
      const transactions = sent.slice(from, from + 100).map(({ signature }) => signature);
      const response = await fetch(`${daemon.apiUrl}/v1/parsed-events/transactions?api-key=${daemon.key}`, {
        method: 'POST',
        body: JSON.stringify({ transactions }),
      });
      const rows = (await response.json()) as { parsed: ParsedTransaction }[];
      assert.equal(response.status, 200, JSON.stringify(rows));
      for (const { parsed } of rows)
        names.push(parsed.instructions.find(({ programId }) => programId === PROGRAM.toBase58())!.instructionName);
    }
    const response = await fetch(`${daemon.apiUrl}/v1/parsed-events/idls/${PROGRAM.toBase58()}?api-key=${daemon.key}`);
    const { versions } = (await response.json()) as { versions: { instructions: string[] | null }[] };
    return { names, versions: versions.map(({ instructions }) => instructions?.[0] ?? null) };
  } finally {
    await daemon.stop();
  }
}

const missing =
  (await chainMissing()) ?? (findLightAssets(null) === null ? 'the programs of Light are not installed' : null);
if (missing !== null) console.error(`SKIPPED: ${missing}`);

bySeed(24, ({ length: most }) =>
  suite('interfaces that were replaced before the daemon looked', { skip: missing ?? false }, () => {
    test('each transaction is decoded by the interface that the chain had in its slot', async (t) => {
      const chain = await startChain({ lightAssets: null });
      t.after(() => chain.stop());
      const authority = await createAuthority(chain);
      await authority.create();
      await authority.write(idlText('first', 300), 300);
      await authority.mention(false);
      await authority.upgrade(idlText('second', 400), 500);
      await authority.mention(true);
      await authority.upgrade(idlText('third', 100), 400, { inOne: true, staysOpen: true });
      await authority.upgrade(idlText('second', 400), 800);
      await authority.close();
      await authority.create();
      await authority.write(idlText('fourth', 200), 700);
      const { names, versions } = await namesOf(chain, authority.sent);
      assert.deepEqual(
        names,
        authority.sent.map(({ name }) => name),
      );
      assert.ok(['first', 'second', 'third', 'fourth'].every((name) => names.includes(name)));
      assert.deepEqual(
        versions.filter((name) => name !== null),
        ['fourth', 'second', 'third', 'second', 'first'],
      );
    });

    test('whatever the authority does, no transaction is decoded by the interface of another time', async (t) => {
      const seed = Math.floor(Math.random() * 2 ** 32);
      t.diagnostic(`seed ${seed}`);
      const draw = createSfc32(seed);
      const chain = await startChain({ lightAssets: null });
      t.after(() => chain.stop());
      const authority = await createAuthority(chain);
      let isThere = false;
      const size = () => 150 + draw.below(650);
      for (let turn = 0; turn < most; turn += 1) {
        const text = idlText(`name_${draw.below(6)}`, draw.below(300));
        const choice = draw.below(10);
        if (!isThere) {
          await authority.create();
          await authority.write(text, size());
          isThere = true;
        } else if (choice === 0) {
          await authority.close();
          isThere = false;
        } else if (choice < 3) await authority.mention(choice === 1);
        // More bytes behind a whole text change nothing.
        else if (choice === 3) await authority.write(text.slice(0, 20), 60);
        else await authority.upgrade(text, size(), { inOne: draw.below(2) === 0, staysOpen: draw.below(2) === 0 });
      }
      if (!isThere) {
        // Of a program that publishes nothing now, what was before is not looked for.
        await authority.create();
        await authority.write(idlText('last', 100), 800);
      }
      const { names } = await namesOf(chain, authority.sent);
      assert.deepEqual(
        names,
        authority.sent.map(({ name }) => name),
      );
    });
  }),
);
