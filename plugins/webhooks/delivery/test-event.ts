import { createHash } from 'node:crypto';
import { encode } from '../../../src/lib/base58.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { Webhook } from '../model/webhook.ts';
import { readSecrets } from '../store/secrets.ts';
import type { Db } from '../store/tables.ts';
import type { Send } from './send.ts';
import { secretKey } from './signature.ts';

export interface TestResult {
  readonly deliveryId: string;
  readonly delivered: boolean;
  readonly statusCode: number | null;
  readonly durationMs: number;
  readonly failure: string | null;
}

const ID_BYTES = 16;
const SYSTEM_PROGRAM = '1'.repeat(32);
/** Base58 of 64 zero bytes. */
const SIGNATURE = '1'.repeat(64);

/** Sends one made-up transaction to a webhook, active or not: one attempt, stored and counted nowhere. */
export async function sendTestEvent(
  parts: { readonly store: Store; readonly clock: Clock; readonly random: Random; readonly send: Send },
  hook: Webhook,
  signal: AbortSignal,
): Promise<TestResult> {
  const { store, clock, random, send } = parts;
  const now = clock.now();
  const secrets = (await readSecrets(store.read as Db, store.dialect, [hook.number], now)).get(hook.number) ?? [];
  const id = Buffer.from(random.bytes(ID_BYTES)).toString('hex');
  const message = {
    id: `tst_${id}`,
    body: Buffer.from(JSON.stringify([rawSample(hook, now)])),
    attempt: 1,
    createdAt: now,
    test: true,
  };
  const { verdict, durationMs } = await send(hook, secrets.map(secretKey), message, signal);
  return {
    deliveryId: `test_${id}`,
    delivered: verdict.failure === null,
    statusCode: verdict.status,
    durationMs,
    failure: verdict.failure,
  };
}

/** A transfer of one lamport between two addresses that belong to nobody. */
function rawSample(hook: Webhook, now: number): object {
  const from = sampleAddress(`${hook.id}:from`);
  const to = sampleAddress(`${hook.id}:to`);
  return {
    blockTime: Math.floor(now / 1_000),
    indexWithinBlock: 0,
    meta: {
      err: null,
      fee: 5_000,
      innerInstructions: [],
      loadedAddresses: { readonly: [], writable: [] },
      logMessages: [`Program ${SYSTEM_PROGRAM} invoke [1]`, `Program ${SYSTEM_PROGRAM} success`],
      postBalances: [999_994_999, 1, 1],
      postTokenBalances: [],
      preBalances: [1_000_000_000, 0, 1],
      preTokenBalances: [],
      rewards: [],
    },
    slot: 0,
    transaction: {
      message: {
        accountKeys: [from, to, SYSTEM_PROGRAM],
        addressTableLookups: null,
        header: { numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 1, numRequiredSignatures: 1 },
        instructions: [
          { accounts: [0, 1], data: encode(Buffer.from('020000000100000000000000', 'hex')), programIdIndex: 2 },
        ],
        recentBlockhash: SYSTEM_PROGRAM,
      },
      signatures: [SIGNATURE],
    },
    version: 'legacy',
  };
}

const sampleAddress = (text: string): string => encode(createHash('sha256').update(text).digest());
