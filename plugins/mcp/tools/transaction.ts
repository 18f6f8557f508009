import { Type } from '../../../src/plugin/plugin.ts';
import {
  answered,
  anything,
  type Calls,
  choice,
  count,
  defineTool,
  INPUT,
  listOf,
  momentOf,
  solOf,
  type ToolAnswer,
} from '../tool.ts';
import { itemsOf, memberOf, objectsOf } from './answers.ts';

const VIEWS = ['explain', 'effects', 'raw', 'status'] as const;

export const transactionTool = defineTool({
  name: 'transaction',
  title: 'Transaction',
  description:
    'One transaction by its signature. Views: explain (instructions with names, arguments and accounts, transfers, the reason of a failure), effects (type, source and balance changes), raw (as a node returns it), status (whether and how far it is confirmed; use it when explain finds nothing).',
  input: Type.Object(
    {
      signature: INPUT.signature('signature of the transaction, base58'),
      view: Type.Optional(choice(VIEWS, 'default: explain')),
      commitment: Type.Optional(choice(['confirmed', 'finalized'], 'default: confirmed')),
    },
    { additionalProperties: false },
  ),
  data: answered({
    found: Type.Boolean({ description: 'False: neither the daemon nor an upstream has it' }),
    transaction: anything('The transaction, in the form of the view'),
    status: anything('Slot, confirmations and error, or null'),
    programs: listOf('Programs of the instructions, without duplicates'),
  }),
  async run({ signature, view = 'explain', commitment = 'confirmed' }, calls) {
    switch (view) {
      case 'explain':
        return await explain(calls, signature, commitment);
      case 'status':
        return await statusOf(calls, signature);
      case 'effects': {
        const [transaction = null] = itemsOf(
          await calls.send('POST', `/v0/transactions?commitment=${commitment}`, { transactions: [signature] }),
        );
        if (transaction === null) return await statusOf(calls, signature);
        return { summary: `Effects of ${signature}.`, data: { found: true, transaction } };
      }
      case 'raw': {
        const transaction = await calls.rpc('getTransaction', [
          signature,
          { encoding: 'jsonParsed', maxSupportedTransactionVersion: 1, commitment },
        ]);
        if (transaction === null) return await statusOf(calls, signature);
        return { summary: `The transaction ${signature} as a node returns it.`, data: { found: true, transaction } };
      }
    }
  },
});

async function explain(calls: Calls, signature: string, commitment: string): Promise<ToolAnswer> {
  const body = { transactions: [signature], commitment };
  const [element] = objectsOf(await calls.send('POST', '/v1/parsed-events/transactions', body));
  const parsed = memberOf(element, 'parsed');
  if (parsed === undefined) {
    if (memberOf(memberOf(element, 'parserError'), 'code') === 'transaction_not_found')
      return await statusOf(calls, signature);
    return {
      summary: `The transaction ${signature} exists and cannot be decoded: ask for the view raw.`,
      data: { found: true, transaction: element ?? null },
    };
  }
  const instructions = objectsOf(memberOf(parsed, 'instructions'));
  const transfers =
    itemsOf(memberOf(parsed, 'nativeTransfers')).length + itemsOf(memberOf(parsed, 'tokenTransfers')).length;
  const hasFailed = memberOf(parsed, 'transactionStatus') !== 'OK';
  const facts = [
    `${hasFailed ? 'Failed' : 'Succeeded'} in slot ${String(memberOf(parsed, 'slot'))}, at ${momentOf(memberOf(parsed, 'blockTime'))}`,
    `${count(instructions.length, 'instruction')} with inner ones`,
    count(transfers, 'transfer'),
    `fee ${solOf(memberOf(parsed, 'fee') ?? 0)}`,
  ];
  const programs = [...new Set(instructions.map((instruction) => instruction['programId']))];
  const reason = hasFailed ? ' The reason is in `transaction.error` and `transaction.decodedError`.' : '';
  return { summary: `${facts.join('; ')}.${reason}`, data: { found: true, transaction: parsed, programs } };
}

async function statusOf(calls: Calls, signature: string): Promise<ToolAnswer> {
  const found = await calls.rpc('getSignatureStatuses', [[signature], { searchTransactionHistory: true }]);
  const [status = null] = itemsOf(memberOf(found, 'value'));
  if (status === null)
    return {
      summary: `No upstream knows the transaction ${signature}: it was not sent, was dropped, is on another network, or is older than what the upstreams keep.`,
      data: { found: false, status },
    };
  const level = String(memberOf(status, 'confirmationStatus') ?? 'processed');
  const outcome = (memberOf(status, 'err') ?? null) === null ? 'succeeded' : 'failed';
  return {
    summary: `The transaction ${outcome} in slot ${String(memberOf(status, 'slot'))} and is ${level}.`,
    data: { found: true, status },
  };
}
