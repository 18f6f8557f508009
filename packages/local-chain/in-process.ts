import { readFile } from 'node:fs/promises';
import { encode32 } from '../../src/lib/base58.ts';
import { CodedError } from '../../src/lib/coded-error.ts';
import { type Chain, createChain, createFaucet, DEFAULTS, type LocalChainOptions } from './chain.ts';
import { demoWallets } from './demo.ts';
import { invalidParams, pubkey } from './encode/params.ts';
import { type AccountInput, advanceSlots, type Bank, deploy, seal, setAccountInput, submit } from './ledger/bank.ts';
import { appendRecorded, bankFor, fork, maxForkDepth } from './ledger/forks.ts';
import { LAMPORTS_PER_SIGNATURE } from './ledger/record.ts';
import type { ForkReport, ForkRequest, RecordedTransaction } from './ledger/state.ts';
import { createLocalSockets, createPublisher, type NotificationFilter } from './pubsub.ts';
import { isSince, type LocalNode, type Method, type Methods, requireCommitment, unknownMethod } from './rpc/method.ts';
import { accountMethods, tokenMethods } from './rpc/methods-accounts.ts';
import { blockMethods } from './rpc/methods-blocks.ts';
import { nodeMethods } from './rpc/methods-node.ts';
import { sendMethods } from './rpc/methods-send.ts';
import { answerBody, type CallResponder, endJson, startRpcServer, startSocketPort } from './rpc/server.ts';
import { decodeSentTransaction } from './vm/transaction.ts';

/** Hooks for test faults: around calls, notifications and pings, with additional control methods. */
export interface ChainHooks {
  respond(node: LocalNode, methods: Methods): CallResponder;
  readonly filter: NotificationFilter;
  answersPing(): boolean;
  readonly methods: Methods;
}

const NO_HOOKS: ChainHooks = {
  respond:
    (node, methods) =>
    ({ response, body }) =>
      endJson(response, answerBody(node, methods, body)),
  filter: (_kind, text, _socket, send) => send(text),
  answersPing: () => true,
  methods: {},
};

/** A chain in this process with its sockets, and its internals for code in this folder. */
export async function startChainWithInternals(options: LocalChainOptions, hooks: ChainHooks = NO_HOOKS) {
  const chain = await createChain(options);
  const { node, bank } = chain;
  const publisher = createPublisher(node);
  bank.listeners.add(publisher.listener);
  const standard = allMethods();
  const sockets = createLocalSockets(publisher, {
    filter: hooks.filter,
    answersPing: hooks.answersPing,
    check(topic) {
      if (topic.kind === 'vote' && !isSince(node, '4.5')) unknownMethod(node, undefined);
      if ('commitment' in topic) requireCommitment(node, topic.commitment);
    },
    version: (params) => standard['getVersion']!(node, params),
  });
  let rpcUrl = '';
  const control = controlMethods(chain, { dropSockets: sockets.drop, rpcUrl: () => rpcUrl });
  const methods = { ...standard, ...(options.control === false ? {} : { ...control, ...hooks.methods }) };
  const server = await startRpcServer(options.port ?? 0, hooks.respond(node, methods), sockets.upgrade);
  rpcUrl = `http://127.0.0.1:${server.port}`;
  const socketPort = await startSocketPort(server.port, options, sockets.upgrade);
  const stopTimer = startSlotTimer(bank, options);
  const handle: LocalChainHandle = {
    rpcUrl,
    wsUrl: `ws://127.0.0.1:${server.port}`,
    socketPort: socketPort.port,
    genesisHash: node.genesisHash,
    ...ledgerControls(chain),
    async dropSockets(code) {
      sockets.drop(code);
    },
    async stop() {
      stopTimer();
      await sockets.stop();
      await Promise.all([server.stop(), socketPort.stop()]);
      // A transaction that has run is in a block of the next start.
      if (chain.journal !== null && bank.pending.records.length > 0) seal(bank);
      chain.journal?.close();
    },
  };
  return { handle, chain };
}

function ledgerControls({ node, bank, time, sealsEach }: Chain) {
  return {
    async fund(address: string, lamports: number | bigint) {
      return node.airdrop(address, BigInt(lamports));
    },
    async deploy(programId: string, pathOrBytes: string | Uint8Array) {
      deploy(bank, programId, typeof pathOrBytes === 'string' ? await readFile(pathOrBytes) : pathOrBytes);
    },
    async setAccount(address: string, account: AccountInput | null) {
      setAccountInput(bank, address, account);
    },
    async appendRecorded(transaction: Parameters<typeof appendRecorded>[1]) {
      appendRecorded(bank, transaction);
      if (sealsEach) seal(bank);
    },
    async submitAll(
      transactions: readonly Uint8Array[],
      { perBlock = 1, verifySignatures = true }: { perBlock?: number; verifySignatures?: boolean } = {},
    ) {
      bank.vm.setSignatureCheck(verifySignatures);
      try {
        return transactions.map((bytes, index) => {
          const result = submit(bank, decodeSentTransaction(bytes));
          if (!result.landed) {
            throw new CodedError('LOCAL_BAD_TRANSACTION', `transaction ${index}: ${JSON.stringify(result.err)}`);
          }
          if ((index + 1) % perBlock === 0 || index === transactions.length - 1) seal(bank);
          return result.record.signature;
        });
      } finally {
        bank.vm.setSignatureCheck(true);
      }
    },
    async seal(count = 1) {
      for (let index = 0; index < count; index += 1) seal(bank);
      return bank.state.tip().slot;
    },
    async skip(count = 1) {
      advanceSlots(bank, count);
    },
    async fork(request: Parameters<typeof fork>[1]) {
      return fork(bank, request);
    },
    async prune(firstAvailableSlot: number) {
      bank.state.prune(firstAvailableSlot);
    },
    async setTime(unixSeconds: number) {
      time.moveTo(unixSeconds, bank.state.tip().height + 1);
    },
  };
}

/** Seals a block every `slotMs`, or skips the slot by seeded chance. Returns a function that stops it. */
function startSlotTimer(bank: Bank, options: LocalChainOptions): () => void {
  const { slotMs } = { ...DEFAULTS, ...options };
  if (slotMs === 0) return () => undefined;
  const chance = createSeededRandom(options.skipEvery?.seed ?? 0);
  const rate = options.skipEvery?.rate ?? 0;
  const timer = setInterval(() => {
    if (bank.pending.records.length === 0 && chance() < rate) advanceSlots(bank, 1);
    else seal(bank);
  }, slotMs);
  timer.unref();
  return () => clearInterval(timer);
}

/** A running local chain in this process. */
export interface LocalChainHandle {
  readonly rpcUrl: string;
  readonly wsUrl: string;
  /** Second port, for WebSocket only, if there is one. */
  readonly socketPort: number | null;
  readonly genesisHash: string;
  /** A real transfer from the faucet; returns its signature. At most 100,000 SOL. */
  fund(address: string, lamports: number | bigint): Promise<string>;
  /** Loads a program from a file or from bytes. */
  deploy(programId: string, pathOrBytes: string | Uint8Array): Promise<void>;
  /** Sets an account at once, without a transaction; null removes it. Counted as a fixture. */
  setAccount(address: string, account: AccountInput | null): Promise<void>;
  /** Puts a recorded transaction into the next block without running it. */
  appendRecorded(transaction: RecordedTransaction): Promise<void>;
  /** Runs wire transactions in order, `perBlock` in each block, without HTTP. Throws at the first that does not land. */
  submitAll(
    transactions: readonly Uint8Array[],
    options?: { readonly perBlock?: number; readonly verifySignatures?: boolean },
  ): Promise<readonly string[]>;
  /** Makes `count` blocks now; returns the slot of the newest. */
  seal(count?: number): Promise<number>;
  /** Skips `count` slots. */
  skip(count?: number): Promise<void>;
  fork(request: ForkRequest): Promise<ForkReport>;
  /** Deletes blocks and transactions below a slot. */
  prune(firstAvailableSlot: number): Promise<void>;
  /** Moves chain time forward to unix seconds. */
  setTime(unixSeconds: number): Promise<void>;
  /** Ends all WebSockets; default 1006, without a close frame. */
  dropSockets(code?: number): Promise<void>;
  stop(): Promise<void>;
}

/** Every method of a node that the simulator supports. */
function allMethods(): Methods {
  const { getSlot, getBlockHeight, getEpochInfo } = nodeMethods as Record<string, Method>;
  const tips = fromOldBranch({ getSlot, getBlockHeight, getEpochInfo } as Methods);
  return {
    ...nodeMethods,
    ...tips,
    ...fromOldBranch(blockMethods),
    ...accountMethods,
    ...tokenMethods,
    ...sendMethods,
  };
}

/** After a fork with `servesOld`, a limited number of calls that read blocks are answered from the old branch. */
function fromOldBranch(methods: Methods): Methods {
  return Object.fromEntries(
    Object.entries(methods).map(([name, method]) => [
      name,
      (node, params) => method({ ...node, bank: bankFor(node.bank, name) }, params),
    ]),
  );
}

/** Uniform numbers in [0, 1) that depend only on the seed (mulberry32): the same faults and skips in every run. */
export function createSeededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export const ENGINE = 'litesvm 1.5.0';
const MAX_STEPS = 100_000;

export interface ControlParts {
  dropSockets(code?: number): void;
  rpcUrl(): string;
}

/** The `local_*` methods, for tests and the demo. Not part of a real node, and never proxied. */
function controlMethods(chain: Chain, { dropSockets, rpcUrl }: ControlParts): Methods {
  const { bank, node, time, hasLight } = chain;
  const { pay, payer } = demoPayer(chain);
  return {
    local_info: () => ({
      kind: 'local',
      cluster: 'local',
      engine: ENGINE,
      genesisHash: node.genesisHash,
      fixtures: bank.fixtures,
      light: hasLight,
      slot: bank.state.tip().slot,
      rpcUrl: rpcUrl(),
      maxForkDepth: maxForkDepth(bank),
      payer: { address: payer, lamports: bank.accounts.balance(payer) },
    }),
    local_seal(_node, sent) {
      const params = paramList(sent);
      for (let left = steps(params); left > 0; left -= 1) seal(bank);
      return bank.state.tip().slot;
    },
    local_skip(_node, sent) {
      const params = paramList(sent);
      advanceSlots(bank, steps(params));
      return bank.pending.slot;
    },
    local_fork: (_node, sent) => fork(bank, configAt(paramList(sent), 0) as unknown as ForkRequest),
    local_prune(_node, sent) {
      bank.state.prune(integerAt(paramList(sent), 0));
      return bank.state.firstAvailable();
    },
    local_fund(_node, sent) {
      const params = paramList(sent);
      return node.airdrop(keyAt(params, 0), BigInt(integerAt(params, 1)));
    },
    local_pay(_node, sent) {
      const params = paramList(sent);
      return pay(keyAt(params, 0), BigInt(integerAt(params, 1)));
    },
    local_setAccount(_node, sent) {
      const params = paramList(sent);
      const wire = params[1] === null ? null : configAt(params, 1);
      setAccountInput(bank, keyAt(params, 0), wire === null ? null : accountOf(wire));
      return true;
    },
    local_appendRecorded(_node, sent) {
      const params = paramList(sent);
      const record = appendRecorded(bank, configAt(params, 0) as unknown as RecordedTransaction);
      if (chain.sealsEach) seal(bank);
      return { signature: record.signature, slot: record.slot, recorded: true };
    },
    local_setTime(_node, sent) {
      const params = paramList(sent);
      time.moveTo(integerAt(params, 0), bank.state.tip().height + 1);
      return true;
    },
    local_dropSockets(_node, sent) {
      const params = paramList(sent);
      dropSockets(params[0] === undefined ? undefined : integerAt(params, 0));
      return true;
    },
  };
}

/** A wallet of the demo, whose key everybody knows: transfers on request. */
function demoPayer({ bank, node }: Chain) {
  const keypair = demoWallets().alice;
  const recentBlockhash = () => bank.state.tip().blockhash;
  const send = createFaucet({ name: 'payer', keypair, recentBlockhash, submit: node.submit });
  const payer = encode32(keypair.publicKey.toBytes());
  return {
    payer,
    pay(to: string, lamports: bigint): string {
      const has = bank.accounts.balance(payer);
      if (has < lamports + LAMPORTS_PER_SIGNATURE)
        throw invalidParams(
          `the payer has ${has} lamports, too few for ${lamports} and the fee of ${LAMPORTS_PER_SIGNATURE}`,
        );
      return send(to, lamports);
    },
  };
}

function paramList(params: unknown): readonly unknown[] {
  if (params === undefined) return [];
  if (!Array.isArray(params)) throw invalidParams('Invalid params: expected a list');
  return params;
}

/** The object at `index`; {} when it is absent. */
function configAt(params: readonly unknown[], index: number): Readonly<Record<string, unknown>> {
  const value = params[index] ?? {};
  if (typeof value !== 'object' || Array.isArray(value)) throw invalidParams('Invalid params: expected an object');
  return value as Record<string, unknown>;
}

function keyAt(params: readonly unknown[], index: number): string {
  const value = params[index];
  if (typeof value !== 'string') throw invalidParams('Invalid params: expected a base58 key');
  return pubkey(value);
}

function integerAt(params: readonly unknown[], index: number): number {
  const value = params[index];
  if (!Number.isSafeInteger(value) || (value as number) < 0) {
    throw invalidParams('Invalid params: expected a non-negative integer');
  }
  return value as number;
}

function steps(params: readonly unknown[]): number {
  return params[0] === undefined ? 1 : Math.min(MAX_STEPS, integerAt(params, 0));
}

/** `data` is base64 text, or the pair in responses of getAccountInfo. */
function accountOf(wire: Readonly<Record<string, unknown>>): AccountInput {
  const data: unknown = (Array.isArray(wire['data']) ? wire['data'][0] : wire['data']) ?? '';
  if (typeof data !== 'string') throw invalidParams('Invalid params: expected data in base64');
  return {
    lamports: integerAt([wire['lamports']], 0),
    data: Buffer.from(data, 'base64'),
    owner: keyAt([wire['owner']], 0),
    executable: wire['executable'] === true,
  };
}
