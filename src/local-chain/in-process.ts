import { readFile } from 'node:fs/promises';
import { CodedError } from '../lib/coded-error.ts';
import { type AccountInput, setAccountInput } from './account-input.ts';
import { type Chain, createChain } from './chain.ts';
import { controlMethods } from './control.ts';
import type { LocalChainHandle } from './handle.ts';
import { type Bank, deploy, seal, skip, submit } from './ledger/bank.ts';
import { fork } from './ledger/forks.ts';
import { appendRecorded } from './ledger/recorded.ts';
import { DEFAULTS, type LocalChainOptions } from './options.ts';
import { createPublisher } from './pubsub/publisher.ts';
import { createSockets, type NotificationFilter } from './pubsub/sockets.ts';
import { allMethods } from './rpc/methods.ts';
import type { LocalNode, Methods } from './rpc/node.ts';
import { answerBody, endJson, type Responder, startRpcServer } from './rpc/server.ts';
import { startSocketPort } from './rpc/socket-port.ts';
import { createSeededRandom } from './seeded-random.ts';
import { decodeTransaction } from './vm/transaction.ts';

/** Where tests put faults: around calls, notifications and pings, with control methods of their own. */
export interface ChainHooks {
  respond(node: LocalNode, methods: Methods): Responder;
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

/** A chain in this process with its sockets, and its parts for code in this folder. */
export async function startChainWithInternals(options: LocalChainOptions, hooks: ChainHooks = NO_HOOKS) {
  const chain = await createChain(options);
  const { node, bank } = chain;
  const publisher = createPublisher(node);
  bank.listeners.add(publisher.listener);
  const standard = allMethods();
  const sockets = createSockets(publisher, {
    filter: hooks.filter,
    answersPing: hooks.answersPing,
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
          const result = submit(bank, decodeTransaction(bytes));
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
      skip(bank, count);
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

/** Seals a block every `slotMs`, or leaves the slot out by seeded chance. Answers what stops it. */
function startSlotTimer(bank: Bank, options: LocalChainOptions): () => void {
  const { slotMs } = { ...DEFAULTS, ...options };
  if (slotMs === 0) return () => undefined;
  const chance = createSeededRandom(options.skipEvery?.seed ?? 0);
  const rate = options.skipEvery?.rate ?? 0;
  const timer = setInterval(() => {
    if (bank.pending.records.length === 0 && chance() < rate) skip(bank, 1);
    else seal(bank);
  }, slotMs);
  timer.unref();
  return () => clearInterval(timer);
}
