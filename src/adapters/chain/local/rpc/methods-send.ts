import { VersionedMessage } from '@solana/web3.js';
import { encode } from '../../../../lib/base58.ts';
import { accountFormatOf, accountJson } from '../encode/account.ts';
import { isFresh } from '../ledger/bank.ts';
import { base64 } from '../ledger/record.ts';
import { slotOf, viewOf } from '../ledger/views.ts';
import type { TransactionError } from '../vm/errors.ts';
import { type DecodedTransaction, decodeTransaction, messageParts } from '../vm/transaction.ts';
import type { VmOutcome, VmSimulation } from '../vm/vm.ts';
import { errorText } from './error-text.ts';
import { feeOf, unitPriceOf } from './fees.ts';
import { parseContext } from './methods-accounts.ts';
import { contextSlot, inContext, type LocalNode, type Methods } from './node.ts';
import { asKey, bytesOf, type Config, configAt, integerAt, keyAt, listAt } from './params.ts';
import { invalidParams, RPC, rpcError } from './rpc-error.ts';

const HASH_LIFE_BLOCKS = 150;
const MAX_AIRDROP_LAMPORTS = 100_000_000_000_000;
const FEE_HISTORY_BLOCKS = 150;

export const sendMethods: Methods = {
  getLatestBlockhash(node, params) {
    contextSlot(node, configAt(params, 0));
    return inContext(node.bank.state.tip().slot, latestBlockhash(node));
  },
  isBlockhashValid(node, params) {
    const slot = contextSlot(node, configAt(params, 1));
    return inContext(slot, node.bank.state.isRecentHash(asKey(params[0])));
  },
  getFeeForMessage(node, params) {
    const slot = contextSlot(node, configAt(params, 1));
    const bytes = bytesOf(params[0], 'base64');
    let message: ReturnType<typeof messageParts>;
    try {
      message = messageParts(VersionedMessage.deserialize(bytes));
    } catch {
      message = null;
    }
    if (message === null) throw invalidParams('failed to deserialize message');
    return inContext(slot, node.bank.state.isRecentHash(message.recentBlockhash) ? feeOf(message) : null);
  },
  sendTransaction,
  simulateTransaction,
  requestAirdrop(node, params) {
    const lamports = integerAt(params, 1);
    if (lamports > MAX_AIRDROP_LAMPORTS) throw invalidParams('Invalid params: at most 100000 SOL per call');
    return node.airdrop(keyAt(params, 0), BigInt(lamports));
  },
  getRecentPrioritizationFees(node, params) {
    const keys = params[0] === undefined || params[0] === null ? [] : listAt(params, 0, 128).map(asKey);
    return node.bank.state
      .blocks()
      .slice(-FEE_HISTORY_BLOCKS)
      .map((block) => {
        const prices = block.records
          .filter((record) => keys.every((key) => record.keys.includes(key)))
          .map((record) => Number(unitPriceOf(record.transaction)));
        return { slot: block.slot, prioritizationFee: prices.length === 0 ? 0 : Math.min(...prices) };
      });
  },
};

function latestBlockhash(node: LocalNode) {
  const tip = node.bank.state.tip();
  return { blockhash: tip.blockhash, lastValidBlockHeight: tip.height + HASH_LIFE_BLOCKS };
}

function sendTransaction(node: LocalNode, params: readonly unknown[]): string {
  const config = configAt(params, 1);
  contextSlot(node, config);
  const transaction = readTransaction(params[0], config);
  if (config['skipPreflight'] !== true) preflight(node, transaction);
  const result = node.submit(transaction);
  if (!result.landed) throw refusal(result.err, result.outcome);
  return result.record.signature;
}

/** Runs the transaction without effect first, so that a failing one does not land and cost a fee. */
function preflight(node: LocalNode, transaction: DecodedTransaction): void {
  if (node.bank.state.record(transaction.signatures[0]!) !== undefined) throw refusal('AlreadyProcessed', null);
  if (!isFresh(node.bank, transaction)) throw refusal('BlockhashNotFound', null);
  const outcome = node.bank.vm.simulate(transaction, true);
  if (outcome.err === 'SignatureFailure') {
    throw rpcError(RPC.signatureFailed, 'Transaction signature verification failure');
  }
  if (outcome.err !== null) throw refusal(outcome.err, outcome);
}

function refusal(err: TransactionError, outcome: VmOutcome | null) {
  return rpcError(RPC.sendFailed, `Transaction simulation failed: ${errorText(err)}`, {
    accounts: null,
    err,
    logs: outcome?.logs ?? [],
    returnData: returnDataJson(outcome),
    unitsConsumed: outcome?.computeUnits ?? 0,
  });
}

function returnDataJson(outcome: VmOutcome | null) {
  const returned = outcome?.returnData ?? null;
  return returned === null ? null : { programId: returned.programId, data: [base64(returned.data), 'base64'] };
}

function readTransaction(text: unknown, config: Config): DecodedTransaction {
  const encoding = config['encoding'] ?? 'base58';
  if (encoding !== 'base58' && encoding !== 'base64') {
    throw invalidParams(`unsupported encoding: ${String(encoding).slice(0, 64)}. Supported encodings: base58, base64`);
  }
  return decodeTransaction(bytesOf(text, encoding));
}

function simulateTransaction(node: LocalNode, params: readonly unknown[]): unknown {
  const config = configAt(params, 1);
  contextSlot(node, config);
  const transaction = readTransaction(params[0], config);
  const replace = config['replaceRecentBlockhash'] === true;
  const verify = config['sigVerify'] === true;
  if (replace && verify) throw invalidParams('sigVerify may not be used with replaceRecentBlockhash');
  const outcome: VmSimulation =
    replace || isFresh(node.bank, transaction)
      ? node.bank.vm.simulate(transaction, verify)
      : { err: 'BlockhashNotFound', logs: [], inner: [], computeUnits: 0, returnData: null, accounts: new Map() };
  return inContext(slotOf(node.bank, 'processed'), {
    accounts: simulatedAccounts(node, outcome, config['accounts']),
    err: outcome.err,
    logs: outcome.logs,
    returnData: returnDataJson(outcome),
    unitsConsumed: outcome.computeUnits,
    ...(config['innerInstructions'] === true ? { innerInstructions: innerJson(outcome) } : {}),
    ...(replace ? { replacementBlockhash: latestBlockhash(node) } : {}),
  });
}

function innerJson(outcome: VmOutcome) {
  return outcome.inner.flatMap((group, index) =>
    group.length === 0 ? [] : [{ index, instructions: group.map((item) => ({ ...item, data: encode(item.data) })) }],
  );
}

function simulatedAccounts(node: LocalNode, outcome: VmSimulation, wanted: unknown): unknown {
  if (wanted === undefined || wanted === null) return null;
  const { addresses, ...config } = wanted as Record<string, unknown>;
  const keys = listAt([addresses], 0, 128).map(asKey);
  if (outcome.err !== null) return keys.map(() => null);
  const view = viewOf(node.bank, 'processed');
  const format = accountFormatOf({ encoding: 'base64', ...config });
  const account = (key: string) => outcome.accounts.get(key) ?? view.get(key);
  return keys.map((key) => accountJson(account(key), format, { ...parseContext(node, view), account }));
}
