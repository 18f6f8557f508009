import { createHash } from 'node:crypto';
import { encode } from '../../../src/lib/base58.ts';
import { RequestError } from '../../../src/plugin/request.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { ParsedTransactions } from '../../../src/ports/parsed-transactions.ts';
import type { Store } from '../../../src/ports/store.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { type BodyBuilder, wrapElement } from '../bodies.ts';
import { chainOf, formOf, type Webhook } from '../model.ts';
import { readSecrets } from '../store/hooks.ts';
import type { WebhookDb } from '../store/tables.ts';
import { type SendDelivery, secretKey } from './send.ts';

export interface TestResult {
  readonly deliveryId: string;
  readonly delivered: boolean;
  readonly statusCode: number | null;
  readonly durationMs: number;
  readonly failure: string | null;
}

export interface TestEventParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly send: SendDelivery;
  readonly builder: BodyBuilder;
  /** Null: transactions cannot be parsed. */
  readonly parsed: ParsedTransactions | null;
}

const ID_BYTES = 16;
const SYSTEM_PROGRAM = '1'.repeat(32);
/** Base58 of 64 zero bytes. */
const SIGNATURE = '1'.repeat(64);

const SAMPLE_FILTER = {
  programs: [SYSTEM_PROGRAM],
  instructionNames: [],
  include: [],
  roles: [],
  includeFailed: false,
  includeCpi: false,
};

/** Sends a test transaction to a webhook, active or not: one attempt, neither stored nor counted. */
export async function sendTestEvent(parts: TestEventParts, hook: Webhook, signal: AbortSignal): Promise<TestResult> {
  const { store, clock, random, send } = parts;
  const now = clock.now();
  const secrets =
    (await readSecrets(store.read as WebhookDb, store.dialect, [hook.number], now)).get(hook.number) ?? [];
  const id = Buffer.from(random.bytes(ID_BYTES)).toString('hex');
  const message = {
    id: `tst_${id}`,
    body: wrapElement(formOf(hook.type), await sampleElement(parts, hook, now)),
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

/** A transfer of one lamport between two unused addresses, as a node reports it, in the form of the webhook. */
async function sampleElement({ builder, parsed }: TestEventParts, hook: Webhook, now: number): Promise<string> {
  const block = decodeBlock(0, sampleBlock(hook, now));
  const [transaction] = block.transactions;
  if (transaction === undefined) throw new Error('the sample is not a transaction');
  const form = formOf(hook.type);
  if (form === 'parsed') {
    const board = parsed?.openBoard<0>();
    if (board === undefined) throw new RequestError(400, 'parsed webhooks are not available');
    board.set(0, { filter: SAMPLE_FILTER, project: hook.projectId });
    const [match] = (await board.match(block, { isLive: false })).get(0) ?? [];
    return match!.text(hook.parsed?.details ?? 'full');
  }
  const element = builder.ofBlock(block, chainOf(hook.type)).element(transaction, form);
  const value = JSON.parse(element) as Record<string, unknown>;
  return 'description' in value ? JSON.stringify({ ...value, description: 'Test event' }) : element;
}

function sampleBlock(hook: Webhook, now: number): object {
  const from = sampleAddress(`${hook.id}:from`);
  const to = sampleAddress(`${hook.id}:to`);
  const data = encode(Buffer.from('020000000100000000000000', 'hex'));
  return {
    blockhash: SYSTEM_PROGRAM,
    previousBlockhash: SYSTEM_PROGRAM,
    parentSlot: 0,
    blockHeight: 0,
    blockTime: Math.floor(now / 1_000),
    transactions: [
      {
        transaction: {
          signatures: [SIGNATURE],
          message: {
            accountKeys: [from, to, SYSTEM_PROGRAM],
            header: { numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 1, numRequiredSignatures: 1 },
            instructions: [{ accounts: [0, 1], data, programIdIndex: 2 }],
            recentBlockhash: SYSTEM_PROGRAM,
          },
        },
        meta: {
          err: null,
          fee: 5_000,
          innerInstructions: [],
          logMessages: [`Program ${SYSTEM_PROGRAM} invoke [1]`, `Program ${SYSTEM_PROGRAM} success`],
          preBalances: [1_000_000_000, 0, 1],
          postBalances: [999_994_999, 1, 1],
          preTokenBalances: [],
          postTokenBalances: [],
          rewards: [],
        },
        version: 'legacy',
      },
    ],
  };
}

const sampleAddress = (text: string): string => encode(createHash('sha256').update(text).digest());
