/** A transaction in words: what it moved, and its instructions as a tree with names, arguments and accounts. */
import { useState } from 'preact/hooks';
import { errorText } from '../../../src/solana/error-words.ts';
import { lookUp, type PageTransaction, type Project, type ShownInstruction, type TransactionAnswer } from './api.ts';
import { count, foreign, middle, number, units } from './format.ts';
import { href } from './place.ts';
import {
  AddressLink,
  Badge,
  Card,
  Code,
  Empty,
  Facts,
  Id,
  Name,
  Notice,
  Segments,
  Show,
  Table,
  Time,
  useLoad,
} from './ui.tsx';

const SOL_DECIMALS = 9;
const NAME_LETTERS = 128;
const TEXT_LETTERS = 2_000;
/** Instructions that a transaction without a summary is told by. */
const SHOWN_CALLS = 3;
/** A transaction with more shows the names of its instructions alone at first. */
const OPEN_INSTRUCTIONS = 8;

export function TransactionPage({ project, signature }: { project: Project; signature: string }) {
  const loaded = useLoad(
    () => lookUp<readonly TransactionAnswer[]>(project.id, { what: 'transaction', signature }),
    [project.id, signature],
  );
  return (
    <Show of={loaded} lines={8}>
      {({ result: [answer] }) => {
        const { parsed, parserError, rawTransaction } = answer ?? {};
        if (parserError?.code === 'transaction_not_found')
          return (
            <Card>
              <Empty title="There is no such transaction">
                It may not be confirmed yet, or be older than what the upstreams keep.
              </Empty>
            </Card>
          );
        if (parsed === undefined)
          return (
            <>
              <Notice tone="bad" title="This transaction cannot be read" role="alert">
                <p>{foreign(parserError?.message)}</p>
              </Notice>
              {rawTransaction != null && (
                <Card title="As the node answers">
                  <Code label="the answer of the node" value={rawTransaction} />
                </Card>
              )}
            </>
          );
        return <Words project={project} signature={signature} parsed={parsed} raw={rawTransaction ?? null} />;
      }}
    </Show>
  );
}

interface Shown {
  readonly project: Project;
  readonly parsed: PageTransaction;
}

function Words({ project, signature, parsed, raw }: Shown & { signature: string; raw: unknown }) {
  const { slot, blockTime, fee, feePayer, summary } = parsed;
  const hasFailed = parsed.transactionStatus === 'ERROR';
  return (
    <>
      <Card>
        <div class="stack">
          <p class="badges">
            <Badge tone={hasFailed ? 'bad' : 'good'}>{hasFailed ? 'Failed' : 'Succeeded'}</Badge>
            {summary !== null && <Badge tone="info">{foreign(summary.type, NAME_LETTERS).replaceAll('_', ' ')}</Badge>}
          </p>
          {summary !== null && (
            <h2 class="sentence">
              <Sentence project={project} text={summary.description} />
            </h2>
          )}
          <Failure parsed={parsed} />
          <Facts
            rows={[
              ['Signature', <Id key="signature" text={signature} kept={10} />],
              ['Time', blockTime === null ? null : <Time at={blockTime * 1_000} />],
              ['Slot', number(slot)],
              ['Fee', `${units(fee, SOL_DECIMALS)} SOL`],
              ['Fee payer', feePayer === null ? null : <AddressLink project={project} address={feePayer} />],
            ]}
          />
        </div>
      </Card>
      <Moved project={project} parsed={parsed} />
      <Instructions project={project} parsed={parsed} raw={raw} />
    </>
  );
}

const ADDRESSES = /(\b[1-9A-HJ-NP-Za-km-z]{32,44}\b)/;

/** A description, whose addresses lead to their pages; on the page of a wallet, `own` is that wallet. */
function Sentence({ project, text, own }: { project: Project; text: string; own?: string }) {
  return (
    <bdi>
      {foreign(text)
        .split(ADDRESSES)
        .map((part, at) => {
          if (at % 2 === 0) return part;
          if (part !== own) return <AddressLink key={at} project={project} address={part} />;
          return at === 1 && text.startsWith(part) ? 'This wallet' : 'this wallet';
        })}
    </bdi>
  );
}

/** What a transaction did, in a sentence: the daemon's own, else the names of what it called. */
export function WhatItDid({ project, parsed, own }: Shown & { own: string }) {
  const { summary, instructions } = parsed;
  if (summary !== null && summary.description !== '')
    return <Sentence project={project} text={summary.description} own={own} />;
  const names = instructions
    .filter(({ innerInstructionIndex }) => innerInstructionIndex === null)
    .map(({ programName, programId, instructionName }) =>
      [foreign(programName, NAME_LETTERS) || middle(programId), foreign(instructionName, NAME_LETTERS)]
        .join(' ')
        .trim(),
    );
  const [shown, more] = [[...new Set(names)].slice(0, SHOWN_CALLS), new Set(names).size - SHOWN_CALLS];
  if (shown.length === 0) return <>Called nothing</>;
  return (
    <bdi>
      Called {shown.join(', ')}
      {more > 0 ? ` and ${number(more)} more` : ''}
    </bdi>
  );
}

function Failure({ parsed: { error, decodedError, transactionStatus } }: { parsed: PageTransaction }) {
  if (transactionStatus !== 'ERROR') return null;
  if (decodedError === undefined)
    return (
      <Notice tone="bad" title={foreign(errorText(error ?? null))}>
        <p>
          <code>{foreign(JSON.stringify(error ?? null))}</code>
        </p>
      </Notice>
    );
  const { instructionIndex, programName, code, name, msg } = decodedError;
  return (
    <Notice tone="bad" title={`${foreign(name, NAME_LETTERS)} (${code})`}>
      <p>
        Instruction {instructionIndex + 1}, {foreign(programName, NAME_LETTERS)}
        {msg === null ? '' : `: ${foreign(msg)}`}
      </p>
    </Notice>
  );
}

interface Movement {
  readonly key: number;
  readonly amount: string;
  readonly mint: string | null;
  readonly from: string | null;
  readonly to: string | null;
}

function Moved({ project, parsed: { nativeTransfers, tokenTransfers } }: Shown) {
  const rows: readonly Movement[] = [
    ...nativeTransfers.map((one) => ({
      amount: units(one.amount, SOL_DECIMALS),
      mint: null,
      from: one.fromUserAccount,
      to: one.toUserAccount,
    })),
    ...tokenTransfers.map((one) => ({
      amount: units(one.rawTokenAmount, one.decimals),
      mint: one.mint,
      from: one.fromUserAccount,
      to: one.toUserAccount,
    })),
  ].map((one, key) => ({ ...one, key }));
  const link = (address: string | null, otherwise: string) =>
    address === null ? otherwise : <AddressLink project={project} address={address} />;
  return (
    <Card title="Moved" flush>
      <Table
        caption="Moved"
        dense
        keyOf={({ key }) => key}
        rows={rows}
        empty={<Empty title="Nothing was moved" />}
        columns={[
          { name: 'Amount', isTitle: true, show: ({ amount }) => amount },
          { name: 'Of', show: ({ mint }) => link(mint, 'SOL') },
          { name: 'From', show: ({ from }) => link(from, 'minted') },
          { name: 'To', show: ({ to }) => link(to, 'burned') },
        ]}
      />
    </Card>
  );
}

// -------------------------------------------------------------------------------------------------------- instructions

interface Call {
  readonly one: ShownInstruction;
  readonly calls: Call[];
}

/** Old transactions do not say who called an inner instruction: it stands below the one of the message. */
const depthOf = ({ innerInstructionIndex, stackHeight }: ShownInstruction): number =>
  innerInstructionIndex === null ? 0 : Math.max(1, (stackHeight ?? 2) - 1);

/** Instructions are in the order of execution; each stands below the one that called it. */
function treeOf(instructions: readonly ShownInstruction[]): readonly Call[] {
  const roots: Call[] = [];
  const path: Call[] = [];
  for (const one of instructions) {
    const call: Call = { one, calls: [] };
    path.length = Math.min(path.length, depthOf(one));
    (path.at(-1)?.calls ?? roots).push(call);
    path.push(call);
  }
  return roots;
}

function Instructions({ project, parsed: { instructions }, raw }: Shown & { raw: unknown }) {
  const [form, setForm] = useState<'words' | 'raw'>('words');
  return (
    <Card
      title="Instructions"
      note={`${count(instructions.length, 'instruction')} in the order of execution`}
      actions={
        <Segments
          label="Form"
          options={[
            ['words', 'In words'],
            ['raw', 'Raw'],
          ]}
          value={form}
          onChange={setForm}
        />
      }
    >
      {form === 'words' ? (
        <Calls project={project} calls={treeOf(instructions)} isOpen={instructions.length <= OPEN_INSTRUCTIONS} />
      ) : (
        <Code label="the transaction as the node answers" value={raw} />
      )}
    </Card>
  );
}

function Calls({ project, calls, isOpen }: { project: Project; calls: readonly Call[]; isOpen: boolean }) {
  return (
    <ol class="calls">
      {calls.map(({ one, calls: inner }, at) => (
        <li key={at}>
          <Instruction project={project} one={one} isOpen={isOpen} />
          {inner.length > 0 && <Calls project={project} calls={inner} isOpen={isOpen} />}
        </li>
      ))}
    </ol>
  );
}

function Instruction({ project, one, isOpen }: { project: Project; one: ShownInstruction; isOpen: boolean }) {
  const { instructionIndex, innerInstructionIndex, programId, programName, instructionName, decoded } = one;
  const place = `${instructionIndex + 1}${innerInstructionIndex === null ? '' : `.${innerInstructionIndex + 1}`}`;
  const accounts = decoded?.accounts ?? one.rawAccounts.map((pubkey) => ({ name: null, pubkey }));
  const args = decoded === null ? [] : argumentsOf(decoded.args);
  return (
    <details open={isOpen}>
      <summary>
        <span class="soft">{place}</span>{' '}
        <span class="strong">
          <Name text={foreign(programName, NAME_LETTERS) || programId} />
          {instructionName !== null && (
            <>
              {' '}
              <code>
                <Name text={foreign(instructionName, NAME_LETTERS)} />
              </code>
            </>
          )}
        </span>{' '}
        {decoded === null && <Badge tone="plain">Not decoded</Badge>}
      </summary>
      <div class="stack">
        {one.summary !== null && (
          <p class="sentence">
            <Sentence project={project} text={one.summary.description} />
          </p>
        )}
        <dl class="pairs">
          <div>
            <dt>Program</dt>
            <dd>
              <a class="mono" href={href(['p', project.id, 'interfaces', programId])}>
                {programId}
              </a>
            </dd>
          </div>
          {args.map(([name, value]) => (
            <div key={name}>
              <dt>
                <Name text={name} />
              </dt>
              <dd>
                <code dir="auto">{value}</code>
              </dd>
            </div>
          ))}
          {decoded === null && (
            <div>
              <dt>Data</dt>
              <dd>{one.rawData === '' ? '–' : <Id text={one.rawData} />}</dd>
            </div>
          )}
        </dl>
        {accounts.length > 0 && (
          <Table
            caption={`Accounts of instruction ${place}`}
            dense
            keyOf={({ at }) => at}
            rows={accounts.map((account, at) => ({ ...account, at }))}
            empty={null}
            columns={[
              {
                name: 'Account',
                isTitle: true,
                show: ({ name, at }) =>
                  name === null ? `Account ${at + 1}` : <Name text={foreign(name, NAME_LETTERS)} />,
              },
              { name: 'Address', show: ({ pubkey }) => <AddressLink project={project} address={pubkey} /> },
              {
                name: 'Rights',
                show: (account) => {
                  const rights = 'isSigner' in account ? rightsOf(account) : [];
                  return rights.length === 0 ? '–' : rights.join(', ');
                },
              },
            ]}
          />
        )}
      </div>
    </details>
  );
}

const rightsOf = ({ isSigner, isWritable }: { readonly isSigner: boolean; readonly isWritable: boolean }) => [
  ...(isSigner ? ['signer'] : []),
  ...(isWritable ? ['writable'] : []),
];

const DEEPEST = 2;

/** Arguments with their paths; what is nested deeper is JSON. */
function argumentsOf(args: unknown, path = '', depth = 0): readonly (readonly [name: string, value: string])[] {
  if (typeof args === 'object' && args !== null && !Array.isArray(args) && depth < DEEPEST) {
    const entries = Object.entries(args);
    if (entries.length > 0)
      return entries.flatMap(([name, value]) => {
        const own = foreign(name, NAME_LETTERS);
        return argumentsOf(value, path === '' ? own : `${path}.${own}`, depth + 1);
      });
  }
  if (path === '') return [];
  return [[path, foreign(typeof args === 'string' ? args : JSON.stringify(args), TEXT_LETTERS)]];
}
