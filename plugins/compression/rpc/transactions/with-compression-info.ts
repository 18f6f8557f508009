import { Type } from '@sinclair/typebox';
import { type ChainReader, JsonText } from '../../../../src/kernel/plugin.ts';
import { stringify } from '../../../../src/lib/json.ts';
import type { ChainBlock } from '../../../../src/ports/block.ts';
import { decodeCompression } from '../../../../src/solana/compression/decode-compression.ts';
import type { CompressionEvent, TransactionEvent } from '../../../../src/solana/compression/events.ts';
import { createProgramFinder } from '../../../../src/solana/compression/programs.ts';
import { readAtOneSlot } from '../../store/snapshot-read.ts';
import { withheld } from '../errors.ts';
import { signature64 } from '../fields.ts';
import { type MethodFactory, plainMethod } from '../method.ts';
import { accountRecord, type RecordVersion } from '../records/account.ts';
import { accountSchema, key, orNull, tokenSchema } from '../records/schemas.ts';
import { tokenRecord } from '../records/token.ts';
import { closedAccounts } from './closed-accounts.ts';
import { fetchTransaction } from './fetch-transaction.ts';
import { openedAccounts } from './opened-accounts.ts';

export interface TransactionParts {
  readonly chain: ChainReader | null;
  /** Account-compression program, base58. */
  readonly programId: string;
}

/** getTransactionWithCompressionInfo and its V2. */
export function getTransactionWithCompressionInfo(
  { chain, programId }: TransactionParts,
  version: RecordVersion,
): MethodFactory {
  return ({ store, slots }) =>
    plainMethod(slots, {
      name: version === 1 ? 'getTransactionWithCompressionInfo' : 'getTransactionWithCompressionInfoV2',
      summary: 'A transaction as the chain has it, and the compressed accounts that it closed and opened',
      fields: { signature: signature64('signature of the transaction') },
      result: Type.Object({ transaction: Type.Unknown(), compressionInfo: infoSchema(version) }),
      run: async ({ signature }, call) => {
        const { text, block } = await fetchTransaction(chain, signature.text, call.signal);
        const events = transactionEvents(block, programId);
        const { value } = await readAtOneSlot(store, async (db) => ({
          closedAccounts: await closedAccounts(
            db,
            events.flatMap(({ inputs }) => inputs.map(({ hash }) => hash)),
            version,
          ),
          openedAccounts: (
            await openedAccounts(
              db,
              events.flatMap(({ outputs }) => outputs),
              block.slot,
            )
          ).map(({ account, tokens }) => ({
            account: accountRecord(account, version),
            optionalTokenData: tokens === null ? null : tokenRecord(tokens),
          })),
        }));
        // The transaction goes out as it came: its numbers may be larger than a parser keeps.
        return new JsonText(`{"transaction":${text},"compressionInfo":${stringify(value)}}`);
      },
    });
}

/** Errors: -32603 when a part of the transaction cannot be read: what it did is then not known. */
function transactionEvents(block: ChainBlock, programId: string): TransactionEvent[] {
  const ids = createProgramFinder(programId)(block.keys);
  return block.transactions.flatMap((transaction) => {
    const { events, faults } = decodeCompression(transaction, block.keys, ids);
    if (faults.length > 0) throw withheld('the compression events of the transaction cannot be read');
    return events.filter(isOfAccounts);
  });
}

const isOfAccounts = (event: CompressionEvent): event is TransactionEvent => event.kind === 'transaction';

function infoSchema(version: RecordVersion) {
  const account = accountSchema(version);
  const closed =
    version === 1 ? account : Type.Object({ account, nullifier: key('nullifier'), txHash: key('transaction hash') });
  const optionalTokenData = orNull(tokenSchema());
  return Type.Object({
    closedAccounts: Type.Array(Type.Object({ account: closed, optionalTokenData })),
    openedAccounts: Type.Array(Type.Object({ account, optionalTokenData })),
  });
}
