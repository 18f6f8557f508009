/** A fake server of the block stream: real gRPC and the real messages of the client package, with a script for behaviour. */
import { createRequire } from 'node:module';
import { getCompiledTransactionMessageDecoder, getTransactionDecoder } from '@solana/kit';
import { VersionedTransaction } from '@solana/web3.js';
import { decode, decode32 } from '../../src/lib/base58.ts';
import { ProtobufReader } from '../../src/lib/protobuf.ts';

const load = createRequire(new URL('./geyser/package.json', import.meta.url));

/** A package of the clients; loaded from here, because it is no dependency of the program. */
export const loadClient = (name: string): unknown => load(name);

/** Why the stream cannot be tested here, or null. With REQUIRE_GEYSER=1 a reason is an error. */
export function geyserMissing(): string | null {
  try {
    load('@grpc/grpc-js');
    load('@triton-one/yellowstone-grpc');
    load('helius-laserstream');
    return null;
  } catch (error) {
    const why = String(error).split('\n')[0];
    const reason = `the packages of the block stream do not load (${why}): npm --prefix test/helpers/geyser ci`;
    if (process.env['REQUIRE_GEYSER'] === '1') throw new Error(reason);
    console.error(`SKIPPED: ${reason}`);
    return reason;
  }
}

interface Codec {
  encode(message: object): { finish(): Uint8Array };
  decode(bytes: Uint8Array): Record<string, unknown>;
  fromPartial(message: object): object;
}

interface Call {
  write(message: object): void;
  on(event: string, listener: (value: Record<string, unknown>) => void): void;
  emit(event: string, error: object): void;
  end(): void;
  readonly metadata: { get(name: string): unknown[] };
}

interface Grpc {
  readonly Server: new (
    options: object,
  ) => {
    addService(definition: object, handlers: object): void;
    bindAsync(address: string, credentials: unknown, done: (error: Error | null, port: number) => void): void;
    forceShutdown(): void;
  };
  readonly ServerCredentials: { createInsecure(): unknown };
}

/** A subscription as the server sees it. */
export interface Subscription {
  readonly fromSlot: number | null;
  readonly request: Readonly<Record<string, unknown>>;
  readonly token: string | null;
  /** Metadata of the call; null: absent. */
  header(name: string): string | null;
  /** Requests after the first one: answers to pings. */
  readonly later: Readonly<Record<string, unknown>>[];
  isOpen(): boolean;
  /** Sends an update: `{block}`, `{slot}`, `{ping}`. */
  push(update: object): void;
  /** Ends it, with a gRPC status or in good order. */
  end(code?: number, message?: string): void;
}

export interface Geyser {
  readonly url: string;
  readonly subscriptions: readonly Subscription[];
  /** Subscriptions that are open now. */
  open(): readonly Subscription[];
  /** Called with each new subscription. */
  onSubscribe(handler: (subscription: Subscription) => void): void;
  stop(): Promise<void>;
}

export const GRPC_OUT_OF_RANGE = 11;
export const GRPC_INTERNAL = 13;
export const SLOT_DEAD = 6;

export async function startGeyser(): Promise<Geyser> {
  const grpc = load('@grpc/grpc-js') as Grpc;
  const messages = load('@triton-one/yellowstone-grpc') as Record<'SubscribeRequest' | 'SubscribeUpdate', Codec>;
  const subscriptions: Subscription[] = [];
  let handler: (subscription: Subscription) => void = () => {};
  const server = new grpc.Server({ 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 });
  const method = {
    path: '/geyser.Geyser/Subscribe',
    requestStream: true,
    responseStream: true,
    requestSerialize: (message: object) => Buffer.from(messages.SubscribeRequest.encode(message).finish()),
    requestDeserialize: (bytes: Buffer) => ({
      ...messages.SubscribeRequest.decode(bytes),
      wantsFooters: wantsFooters(bytes),
    }),
    responseSerialize: (message: object) =>
      Buffer.from(messages.SubscribeUpdate.encode(messages.SubscribeUpdate.fromPartial(message)).finish()),
    responseDeserialize: (bytes: Buffer) => messages.SubscribeUpdate.decode(bytes),
  };
  server.addService(
    { subscribe: method },
    {
      subscribe(call: Call) {
        let isOpen = true;
        const later: Record<string, unknown>[] = [];
        let known: Subscription | null = null;
        const close = () => {
          isOpen = false;
        };
        for (const event of ['cancelled', 'close', 'error', 'end']) call.on(event, close);
        call.on('data', (request) => {
          // It stays open, like that of a server whose blocks have none.
          if (request['wantsFooters'] === true) return;
          if (known !== null) return void later.push(request);
          const fromSlot = request['fromSlot'];
          const token = call.metadata.get('x-token')[0];
          known = {
            request,
            later,
            token: token === undefined ? null : String(token),
            isOpen: () => isOpen,
            header(name) {
              const [value] = call.metadata.get(name);
              return value === undefined ? null : String(value);
            },
            fromSlot: fromSlot === undefined ? null : Number(fromSlot),
            push: (update) => (isOpen ? call.write({ filters: ['blocks'], ...update }) : undefined),
            end(code, message = '') {
              if (!isOpen) return;
              isOpen = false;
              if (code === undefined) call.end();
              else call.emit('error', { code, details: message });
            },
          };
          subscriptions.push(known);
          handler(known);
        });
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  return {
    url: `http://127.0.0.1:${port}`,
    subscriptions,
    open: () => subscriptions.filter((subscription) => subscription.isOpen()),
    onSubscribe(given) {
      handler = given;
    },
    stop: async () => server.forceShutdown(),
  };
}

/** The client package does not know the member: `block_footer = 12` of proto 14. */
function wantsFooters(request: Buffer): boolean {
  const reader = new ProtobufReader(request);
  for (let field = reader.next(); field !== 0; field = reader.next()) {
    if (field === 12) return true;
    reader.skip();
  }
  return false;
}

// biome-ignore lint/suspicious/noExplicitAny: the answers of nodes, as recorded.
type Json = any;

/** The result of getBlock (base64, full) as an update of the stream. */
export function blockUpdate(slot: number, block: Json): object {
  return {
    block: {
      slot: String(slot),
      blockhash: block.blockhash,
      parentSlot: String(block.parentSlot),
      parentBlockhash: block.previousBlockhash,
      ...(block.blockTime === null ? {} : { blockTime: { timestamp: String(block.blockTime) } }),
      ...(block.blockHeight === null ? {} : { blockHeight: { blockHeight: String(block.blockHeight) } }),
      executedTransactionCount: String(block.transactions.length),
      transactions: block.transactions.map(transactionOf),
    },
  };
}

function transactionOf({ transaction, meta }: Json, index: number): object {
  const bytes = Buffer.from(transaction[0], 'base64');
  const shared = { isVote: false, index: String(index), meta: metaOf(meta) };
  if (bytes[0] === 0x81) return { ...shared, ...version1Of(bytes) };
  const { message, signatures } = VersionedTransaction.deserialize(bytes);
  return {
    ...shared,
    signature: signatures[0],
    transaction: {
      signatures,
      message: {
        header: message.header,
        accountKeys: message.staticAccountKeys.map((key) => key.toBytes()),
        recentBlockhash: decode32(message.recentBlockhash),
        instructions: message.compiledInstructions.map(({ programIdIndex, accountKeyIndexes, data }) => ({
          programIdIndex,
          data,
          accounts: Uint8Array.from(accountKeyIndexes),
        })),
        versioned: message.version !== 'legacy',
        addressTableLookups: message.addressTableLookups.map(({ accountKey, writableIndexes, readonlyIndexes }) => ({
          accountKey: accountKey.toBytes(),
          writableIndexes: Uint8Array.from(writableIndexes),
          readonlyIndexes: Uint8Array.from(readonlyIndexes),
        })),
      },
    },
  };
}

/** A transaction of version 1, decoded by @solana/kit. */
function version1Of(bytes: Uint8Array): object {
  const { messageBytes, signatures: byAddress } = getTransactionDecoder().decode(bytes);
  const message = getCompiledTransactionMessageDecoder().decode(messageBytes) as Json;
  const signatures = Object.values(byAddress);
  const { header, configMask, configValues, instructionHeaders, instructionPayloads } = message;
  const values = [...configValues];
  const next = (bit: number) => ((configMask & bit) === 0 ? undefined : values.shift().value);
  const fee = next(1);
  return {
    signature: signatures[0],
    transaction: {
      signatures,
      message: {
        header: {
          numRequiredSignatures: header.numSignerAccounts,
          numReadonlySignedAccounts: header.numReadonlySignerAccounts,
          numReadonlyUnsignedAccounts: header.numReadonlyNonSignerAccounts,
        },
        accountKeys: message.staticAccounts.map((key: string) => decode32(key)),
        recentBlockhash: decode32(message.lifetimeToken),
        instructions: instructionHeaders.map(({ programAccountIndex }: Json, at: number) => ({
          programIdIndex: programAccountIndex,
          accounts: Uint8Array.from(instructionPayloads[at].instructionAccountIndices),
          data: instructionPayloads[at].instructionData,
        })),
        versioned: true,
        addressTableLookups: [],
        config: {
          priorityFee: fee === undefined ? undefined : String(fee),
          computeUnitLimit: next(4),
          loadedAccountsDataSizeLimit: next(8),
          heapSize: next(16),
        },
      },
    },
  };
}

function metaOf(meta: Json): object {
  const loaded = meta.loadedAddresses ?? { writable: [], readonly: [] };
  const keys = (list: readonly string[]) => list.map((key) => decode32(key));
  return {
    ...(meta.err === null ? {} : { err: { err: errorBytes(meta.err) } }),
    fee: String(meta.fee),
    preBalances: meta.preBalances.map(String),
    postBalances: meta.postBalances.map(String),
    innerInstructions: (meta.innerInstructions ?? []).map(innerOf),
    innerInstructionsNone: meta.innerInstructions === null,
    logMessages: meta.logMessages ?? [],
    logMessagesNone: meta.logMessages === null,
    preTokenBalances: (meta.preTokenBalances ?? []).map(tokenOf),
    postTokenBalances: (meta.postTokenBalances ?? []).map(tokenOf),
    loadedWritableAddresses: keys(loaded.writable),
    loadedReadonlyAddresses: keys(loaded.readonly),
    ...(meta.returnData === undefined
      ? { returnDataNone: true }
      : {
          returnDataNone: false,
          returnData: {
            programId: decode32(meta.returnData.programId),
            data: Buffer.from(meta.returnData.data[0], 'base64'),
          },
        }),
    ...(meta.costUnits === undefined ? {} : { costUnits: String(meta.costUnits) }),
    rewards: (meta.rewards ?? []).map(rewardOf),
    ...(meta.computeUnitsConsumed === undefined ? {} : { computeUnitsConsumed: String(meta.computeUnitsConsumed) }),
  };
}

const REWARD_TYPES = [null, 'Fee', 'Rent', 'Staking', 'Voting'];

function rewardOf({ pubkey, lamports, postBalance, rewardType, commission }: Json): object {
  return {
    pubkey,
    lamports: String(lamports),
    postBalance: String(postBalance),
    rewardType: REWARD_TYPES.indexOf(rewardType ?? null),
    commission: commission === null ? '' : String(commission),
  };
}

function innerOf({ index, instructions }: Json): object {
  return {
    index,
    instructions: instructions.map(({ programIdIndex, accounts, data, stackHeight }: Json) => ({
      programIdIndex,
      accounts: Uint8Array.from(accounts),
      data: decode(data),
      ...(stackHeight === null || stackHeight === undefined ? {} : { stackHeight }),
    })),
  };
}

function tokenOf({ accountIndex, mint, owner, programId, uiTokenAmount }: Json): object {
  const { uiAmount, ...amount } = uiTokenAmount;
  return {
    accountIndex,
    mint,
    owner: owner ?? '',
    programId: programId ?? '',
    uiTokenAmount: { ...amount, uiAmount: uiAmount ?? 0 },
  };
}

const INSTRUCTION_ERRORS: Readonly<Record<string, number>> = {
  GenericError: 0,
  InsufficientFunds: 5,
  Custom: 25,
  ProgramFailedToComplete: 40,
  IllegalOwner: 49,
};

/** `{"InstructionError": [index, name or {Custom}]}` as the server's own binary form has it. */
function errorBytes(error: {
  readonly InstructionError: readonly [number, string | { readonly Custom: number }];
}): Buffer {
  const [index, kind] = error.InstructionError;
  const name = typeof kind === 'string' ? kind : 'Custom';
  const code = INSTRUCTION_ERRORS[name];
  if (code === undefined) throw new Error(`no number for ${name}`);
  const bytes = Buffer.alloc(typeof kind === 'string' ? 9 : 13);
  bytes.writeUInt32LE(8, 0);
  bytes.writeUInt8(index, 4);
  bytes.writeUInt32LE(code, 5);
  if (typeof kind !== 'string') bytes.writeUInt32LE(kind.Custom, 9);
  return bytes;
}
