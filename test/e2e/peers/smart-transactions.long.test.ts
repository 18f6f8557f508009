import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { AccountRole, address, createKeyPairSignerFromBytes } from '@solana/kit';
import {
  AddressLookupTableProgram,
  Connection,
  Keypair,
  type PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
  type TransactionInstruction,
  VersionedTransaction,
} from '@solana/web3.js';
import { createHelius } from 'helius-sdk';
import { createHelius as createHelius2 } from 'helius-sdk-2';
import { makeCertificate, opensslMissing } from '../../helpers/certificates.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';

const missing = (await chainMissing()) ?? false;
const LAMPORTS = 10_000_000_000;
const SENT = 1_000_000;

async function bed(t: TestContext, tls = false) {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-smart-'));
  const http: Record<string, unknown> = { port: 0 };
  if (tls) {
    const { cert, key } = makeCertificate();
    const [certFile, keyFile] = [join(dir, 'cert.pem'), join(dir, 'key.pem')];
    writeFileSync(certFile, cert);
    writeFileSync(keyFile, key);
    http['tls'] = { certFile, keyFile };
  }
  const chain = await startChain();
  const config = { plugins: ['access', 'proxy', 'sender', 'fees'], http };
  const daemon = await startDaemon({ chain, config });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
    rmSync(dir, { recursive: true });
  });
  const wallet = Keypair.generate();
  await chain.fund(wallet.publicKey.toBase58(), LAMPORTS);
  // An estimate needs a block that was followed.
  for (let round = 0; ; round++) {
    const ready = await (await fetch(`${daemon.adminUrl}/readyz`)).text();
    if (/"cursorSlot":\d/.test(ready)) break;
    assert.ok(round < 1_000, ready);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const receiver = Keypair.generate().publicKey;
  const transfer = SystemProgram.transfer({ fromPubkey: wallet.publicKey, toPubkey: receiver, lamports: SENT });
  return { chain, daemon, wallet, receiver, transfer };
}

/** A table with these addresses that can be used. */
async function lookupTable({ connection, fund }: TestChain, wallet: Keypair, addresses: PublicKey[]) {
  const { publicKey: authority } = wallet;
  const recentSlot = await connection.getSlot('confirmed');
  const [create, key] = AddressLookupTableProgram.createLookupTable({ authority, payer: authority, recentSlot });
  const extend = AddressLookupTableProgram.extendLookupTable({
    authority,
    payer: authority,
    lookupTable: key,
    addresses,
  });
  const confirmed = { commitment: 'confirmed' } as const;
  await sendAndConfirmTransaction(connection, new Transaction().add(create, extend), [wallet], {
    ...confirmed,
    preflightCommitment: 'confirmed',
  });
  // Addresses count from the slot after the one that added them.
  await fund(authority.toBase58(), SENT);
  const { value } = await connection.getAddressLookupTable(key, confirmed);
  assert.ok(value);
  return value;
}

const kitInstruction = ({ programId, keys, data }: TransactionInstruction) => ({
  programAddress: address(programId.toBase58()),
  accounts: keys.map(({ pubkey, isSigner, isWritable }) => ({
    address: address(pubkey.toBase58()),
    role: isSigner
      ? isWritable
        ? AccountRole.WRITABLE_SIGNER
        : AccountRole.READONLY_SIGNER
      : isWritable
        ? AccountRole.WRITABLE
        : AccountRole.READONLY,
  })),
  data: new Uint8Array(data),
});

/** A client of the hosted service whose calls go to the daemon of a bed. */
async function hostedBed(t: TestContext, create: typeof createHelius) {
  const { chain, daemon, wallet, receiver, transfer } = await bed(t, true);
  const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
  // The certificate signs itself, and the client has no place for an authority.
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
  const restore = redirectHostedClients(daemon.apiUrl);
  t.after(() => {
    restore();
    if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
    else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before;
  });
  const helius = create({ apiKey: daemon.key, baseUrl: `${daemon.apiUrl}/` });
  const signer = await createKeyPairSignerFromBytes(wallet.secretKey);
  const request = (version: 'legacy' | 0 | 1) =>
    ({ signers: [signer], instructions: [kitInstruction(transfer)], version }) as never;
  return { chain, helius, request, receiver };
}

async function everyVersion(t: TestContext, create: typeof createHelius, versions: readonly ('legacy' | 0 | 1)[]) {
  const { chain, helius, request: requestOf, receiver } = await hostedBed(t, create);
  let sent = 0;
  for (const version of versions) {
    const request = requestOf(version);
    const made = await helius.tx.createSmartTransaction(request);
    assert.equal(made.priorityFee, 10_000, String(version));
    assert.ok(made.units >= 1_000);
    await helius.tx.sendSmartTransaction(request);
    sent += SENT;
    assert.equal(await chain.connection.getBalance(receiver), sent, `version ${version}`);
    await helius.tx.sendTransactionWithSender({
      ...(request as object),
      region: 'Default',
      tipAmount: 1_000_000,
      pollIntervalMs: 100,
    } as never);
    sent += SENT;
    assert.equal(await chain.connection.getBalance(receiver), sent, `version ${version} by the sender`);
  }
}

const needs = { skip: missing || (opensslMissing() ?? false) };

test('helius-sdk 3 makes and sends smart transactions of every version', needs, async (t) => {
  await everyVersion(t, createHelius, ['legacy', 0, 1]);
});

test(
  'helius-sdk 3.2 asks for blockhash, trial run, fee and blockhash again, of whatever block each call finds',
  needs,
  async (t) => {
    const { chain, helius, request } = await hostedBed(t, createHelius);
    const calls: { method: string; members: readonly string[]; result: unknown }[] = [];
    const send = globalThis.fetch;
    const spy = t.mock.method(globalThis, 'fetch', async (input: string | URL | Request, init?: RequestInit) => {
      const body = input instanceof Request ? await input.clone().text() : String(init?.body);
      const { method, params } = JSON.parse(body) as { method: string; params: readonly object[] };
      const answer = await send(input, init);
      const { result } = (await answer.clone().json()) as { result: unknown };
      calls.push({ method, members: Object.keys(params[0]!).filter((name) => name !== 'options'), result });
      await chain.seal();
      return answer;
    });
    try {
      for (const version of ['legacy', 0, 1] as const) {
        calls.length = 0;
        const made = await helius.tx.createSmartTransaction(request(version));
        assert.deepEqual(
          calls.map(({ method }) => method),
          ['getLatestBlockhash', 'simulateTransaction', 'getPriorityFeeEstimate', 'getLatestBlockhash'],
          String(version),
        );
        // Not every service that estimates reads version 1, so of that it asks by keys.
        assert.deepEqual(calls[2]!.members, [version === 1 ? 'accountKeys' : 'transaction'], String(version));
        const [first, last] = [0, 3].map(
          (at) => (calls[at]!.result as { value: { blockhash: string } }).value.blockhash,
        );
        assert.notEqual(first, last);
        assert.equal(made.lifetime.blockhash, last);
        const signature = await chain.connection.sendRawTransaction(Buffer.from(made.base64, 'base64'));
        const landed = await chain.connection.getTransaction(signature, { maxSupportedTransactionVersion: 1 } as never);
        assert.equal(landed?.meta?.err, null, String(version));
        assert.ok(landed.meta.computeUnitsConsumed! <= made.units, `${version}: ${made.units} units`);
        assert.equal(landed.meta.fee, 5_000 + Math.ceil((made.units * made.priorityFee) / 1e6), String(version));
      }
    } finally {
      spy.mock.restore();
    }
  },
);

test('helius-sdk 2.2 makes and sends smart transactions, legacy and version 0', needs, async (t) => {
  await everyVersion(t, createHelius2 as never, ['legacy', 0]);
});

test('helius-sdk 1.5.3 makes and sends smart transactions, legacy and version 0', { skip: missing }, async (t) => {
  const { chain, daemon, wallet, receiver, transfer } = await bed(t);
  const { RpcClient } = createRequire(import.meta.url)('helius-sdk-v1/dist/src/RpcClient') as {
    RpcClient: new (connection: Connection, id: string) => import('helius-sdk-v1').RpcClient;
  };
  const connection = new Connection(`${daemon.apiUrl}/?api-key=${daemon.key}`, 'confirmed');
  const rpc = new RpcClient(connection, 'helius-sdk');
  // It makes version 0 of what it is given lookup tables for, and writes into the list of instructions.
  const table = await lookupTable(chain, wallet, [receiver]);
  let sent = 0;
  for (const tables of [[], [table]]) {
    const made = await rpc.createSmartTransaction([transfer], [wallet], tables);
    const expected = tables.length > 0 ? VersionedTransaction : Transaction;
    assert.ok(made.transaction instanceof expected, expected.name);
    const signature = await rpc.sendSmartTransaction([transfer], [wallet], tables);
    sent += SENT;
    assert.equal(await chain.connection.getBalance(receiver), sent);
    const landed = await chain.connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
    assert.equal(landed?.version, tables.length > 0 ? 0 : 'legacy');
    assert.equal(landed?.transaction.message.addressTableLookups.length ?? 0, tables.length);
  }
});
