import { useEffect, useState } from 'preact/hooks';
import {
  type Choices,
  type DeliveryState,
  get,
  type HookHealth,
  hookCall,
  type ListedDeliveries,
  type Project,
  type ShownAttempt,
  type ShownDelivery,
  type ShownWebhook,
} from './api.ts';
import { explorerAddress } from './explorer.ts';
import { capital, count, duration, number, utc } from './format.ts';
import { ExternalLink, RefreshCw, RotateCw, Send } from './icons.tsx';
import { go, href, useWorld } from './place.ts';
import {
  Badge,
  Button,
  Card,
  Changes,
  Code,
  Dialog,
  Empty,
  Form,
  Head,
  Id,
  Menu,
  Notice,
  SelectField,
  Show,
  Stat,
  Table,
  TextField,
  Time,
  type Tone,
  toast,
  useLoad,
} from './ui.tsx';
import { HealthBars, HookState, isLow, rateText } from './webhook-health.tsx';
import { addressCountOf, failureText, toHooks, transactionText, typeName, useHookActions } from './webhooks.tsx';

const MISS_REASONS: Readonly<Record<string, string>> = {
  queue_full: 'Too many were waiting.',
  plan_full: 'The plan has no room for more.',
  interfaces_unread: 'The interfaces of programs could not be read.',
};
const WATCH_MS = 2_000;
const PAGE = 25;

const STATES: Readonly<Record<DeliveryState, readonly [Tone, string]>> = {
  pending: ['info', 'pending'],
  delivered: ['good', 'delivered'],
  failed: ['bad', 'failed'],
  discarded: ['plain', 'discarded'],
};

function StateBadge({ state }: { state: DeliveryState }) {
  const [tone, text] = STATES[state] ?? ['plain', state];
  return <Badge tone={tone}>{text}</Badge>;
}

function StatusCode({ attempt }: { attempt: ShownAttempt | undefined }) {
  if (attempt === undefined) return <>–</>;
  const { statusCode, failure } = attempt;
  if (statusCode === null) return <Badge tone="bad">{(failure ?? 'none').replace('_', ' ')}</Badge>;
  return <Badge tone={statusCode < 300 ? 'good' : 'bad'}>{statusCode}</Badge>;
}

const FILTERS = [
  ['', 'All'],
  ['pending', 'Pending'],
  ['delivered', 'Delivered'],
  ['failed', 'Failed'],
  ['discarded', 'Discarded'],
] as const;
const SIGNATURE = /^[1-9A-HJ-NP-Za-km-z]{64,88}$/;

/** A webhook and its deliveries. Filters and page are in the address. */
export function DeliveriesPage({
  project,
  hookId,
  query,
}: {
  project: Project;
  hookId: string;
  query: URLSearchParams;
}) {
  const path = ['p', project.id, 'webhooks', hookId];
  const [state, signature, cursor] = ['state', 'signature', 'cursor'].map((name) => query.get(name) ?? '') as [
    string,
    string,
    string,
  ];
  const [resends, setResends] = useState(false);
  const hook = useLoad(
    () =>
      hookCall<readonly ShownWebhook[]>(project.id, 'GET', '').then(
        (all) => all.find((one) => one.webhookID === hookId) ?? null,
      ),
    [hookId],
    10_000,
  );
  const search = new URLSearchParams({ limit: String(PAGE) });
  if (state !== '') search.set('status', state);
  if (signature !== '') search.set('signature', signature);
  if (cursor !== '') search.set('cursor', cursor);
  const deliveries = useLoad(
    () => hookCall<ListedDeliveries>(project.id, 'GET', `/${hookId}/deliveries?${search}`),
    [hookId, String(search)],
    WATCH_MS,
  );
  const health = useLoad(() => hookCall<HookHealth>(project.id, 'GET', `/${hookId}/health`), [hookId], 10_000);
  const changed = async () => {
    await Promise.all([hook.reload(), deliveries.reload(), health.reload()]);
  };
  const actions = useHookActions(project, changed, () => toHooks(project));
  const resend = async ({ deliveryId }: ShownDelivery) => {
    await hookCall(project.id, 'POST', `/${hookId}/deliveries/${deliveryId}/resend`, {});
    toast('The delivery is sent now');
    await changed();
  };
  const back = { href: href(['p', project.id, 'webhooks']), text: 'Webhooks' };
  return (
    <Show of={hook} lines={6}>
      {(found) =>
        found === null ? (
          <>
            <Head title="Webhook" back={back} />
            <Card>
              <Empty title="There is no such webhook">It may have been deleted.</Empty>
            </Card>
          </>
        ) : (
          <>
            <Head
              title={found.name ?? 'Webhook'}
              back={back}
              note={
                <>
                  <span class="mono">{found.webhookURL}</span>
                  {found.description !== undefined && <span class="description">{found.description}</span>}
                </>
              }
              actions={
                <Changes>
                  <Button icon={Send} onClick={() => actions.test(found)}>
                    Send a test event
                  </Button>
                  <Menu label="More actions" items={actions.of(found).slice(1)} />
                </Changes>
              }
            />
            <HookFacts hook={found} health={health.data} />
            {(deliveries.data?.missed ?? []).map(({ fromSlot, toSlot, events, reason }) => (
              <Notice
                key={fromSlot}
                tone="warn"
                title={`${count(events, 'event')} of slots ${number(fromSlot)} to ${number(toSlot)} ${events === 1 ? 'was' : 'were'} not stored`}
              >
                <p class="soft">
                  {MISS_REASONS[reason]} A replay reads them again:{' '}
                  <code>{`parhelion webhooks replay --id ${hookId} --from ${fromSlot} --to ${toSlot}`}</code>
                </p>
              </Notice>
            ))}
            <Card
              title="Deliveries"
              note="newest first, updated every 2 seconds"
              flush
              actions={
                <Changes>
                  <Button icon={RefreshCw} onClick={() => setResends(true)}>
                    Resend…
                  </Button>
                </Changes>
              }
            >
              <DeliveryFilters state={state} signature={signature} onChange={(next) => go(path, next)} />
              <Show of={deliveries} lines={6}>
                {({ data, pagination }) => (
                  <>
                    <DeliveryTable
                      deliveries={data}
                      path={path}
                      onResend={resend}
                      empty={
                        <Empty title={state === '' && signature === '' ? 'No deliveries yet' : 'No delivery matches'}>
                          {state === '' && signature === ''
                            ? 'They appear here when a transaction of a watched address is committed.'
                            : 'Deliveries are kept for a limited time.'}
                        </Empty>
                      }
                    />
                    {(cursor !== '' || pagination.hasMore) && (
                      <nav class="pages" aria-label="Pages of deliveries">
                        {cursor === '' ? <span /> : <a href={href(path, { state, signature })}>First page</a>}
                        {pagination.hasMore && (
                          <a href={href(path, { state, signature, cursor: pagination.nextCursor })}>Next page</a>
                        )}
                      </nav>
                    )}
                  </>
                )}
              </Show>
            </Card>
            {actions.dialogs}
            {resends && (
              <ResendDialog project={project} hook={found} onClose={() => setResends(false)} onDone={changed} />
            )}
          </>
        )
      }
    </Show>
  );
}

function HookFacts({ hook, health }: { hook: ShownWebhook; health: HookHealth | null }) {
  const { transactionTypes } = hook;
  return (
    <Card flush>
      <dl class="stats">
        <Stat name="State">
          <HookState hook={hook} health={health ?? undefined} />
        </Stat>
        {health !== null && (
          <>
            <Stat
              name="Success, 24 h"
              tone={isLow(health) ? 'bad' : 'plain'}
              note={`${number(health.attempts.failed)} of ${number(health.attempts.succeeded + health.attempts.failed)} attempts failed`}
            >
              {rateText(health)}
            </Stat>
            <Stat name="Last delivery">
              <Time at={health.lastDeliveredAt} />
            </Stat>
            <Stat
              name="Waiting"
              note={
                health.nextAttemptAt === null ? undefined : (
                  <>
                    next attempt <Time at={health.nextAttemptAt} isPlanned />
                  </>
                )
              }
            >
              {number(health.waiting + health.held)}
            </Stat>
          </>
        )}
      </dl>
      <dl class="stats">
        <Stat name="Type">{typeName(hook.webhookType)}</Stat>
        <Stat name="Addresses">{number(addressCountOf(hook))}</Stat>
        <Stat
          name="Transactions"
          note={transactionTypes.includes('ANY') ? undefined : transactionTypes.slice(0, 3).join(', ')}
        >
          {capital(transactionText(hook))}
        </Stat>
        <Stat name="Retries">{capital(hook.retryPreset)}</Stat>
      </dl>
      {health !== null && (
        <div class="bars-row">
          <HealthBars health={health} wide />
          <p class="soft small">{health.days[0]?.day} to today: attempts per day, the red part failed</p>
        </div>
      )}
    </Card>
  );
}

type Filter = { readonly state: string; readonly signature: string };

function DeliveryFilters({ state, signature, onChange }: Filter & { onChange: (filter: Filter) => void }) {
  const [text, setText] = useState(signature);
  useEffect(() => setText(signature), [signature]);
  const isWrong = text !== '' && !SIGNATURE.test(text.trim());
  return (
    <div class="filters in-card">
      <SelectField
        label="State"
        value={state}
        options={FILTERS}
        onValue={(next) => onChange({ state: next, signature })}
      />
      <TextField
        label="Signature"
        type="search"
        spellcheck={false}
        placeholder="Whole signature of a transaction"
        error={isWrong ? 'Give the whole signature' : undefined}
        value={text}
        onValue={(next) => {
          setText(next);
          if (next === '' || SIGNATURE.test(next.trim())) onChange({ state, signature: next.trim() });
        }}
      />
    </div>
  );
}

function DeliveryTable({
  deliveries,
  path,
  onResend,
  empty,
}: {
  deliveries: readonly ShownDelivery[];
  path: readonly string[];
  onResend: (delivery: ShownDelivery) => unknown;
  empty: preact.ComponentChildren;
}) {
  return (
    <Table
      caption="Deliveries, newest first"
      dense
      keyOf={({ deliveryId }) => deliveryId}
      rows={deliveries}
      empty={empty}
      columns={[
        {
          name: 'Transaction',
          isTitle: true,
          show: ({ deliveryId, signature }) => (
            <a class="mono one-line" href={href([...path, 'deliveries', deliveryId])}>
              {signature.slice(0, 16)}…
            </a>
          ),
        },
        { name: 'State', show: ({ status }) => <StateBadge state={status} /> },
        {
          name: 'Status',
          show: ({ attempts }) => (attempts.length === 0 ? '–' : <StatusCode attempt={attempts.at(-1)} />),
        },
        { name: 'Type', show: ({ type }) => type ?? '–' },
        { name: 'Slot', isNumber: true, isMinor: true, show: ({ slot }) => number(slot) },
        { name: 'Attempts', isNumber: true, isMinor: true, show: ({ attempts }) => number(attempts.length) },
        {
          name: 'Latency',
          isNumber: true,
          show: ({ attempts }) => {
            const last = attempts.at(-1);
            return last === undefined ? '–' : duration(last.durationMs);
          },
        },
        { name: 'Created', show: ({ createdAt }) => <Time at={createdAt} /> },
        {
          name: 'Next attempt',
          isMinor: true,
          show: ({ nextAttemptAt }) => (nextAttemptAt === null ? '–' : <Time at={nextAttemptAt} isPlanned />),
        },
        {
          name: 'Actions',
          isActions: true,
          show: (delivery) => (
            <Button icon={RotateCw} kind="quiet" onClick={() => onResend(delivery)}>
              {delivery.status === 'pending' ? 'Send now' : 'Resend'}
            </Button>
          ),
        },
      ]}
    />
  );
}

const RESENT = [
  ['undelivered', 'All that were not delivered'],
  ['pending', 'Only waiting ones'],
  ['failed', 'Only failed ones'],
  ['discarded', 'Only discarded ones'],
  ['all', 'All, also delivered ones'],
] as const;
const SPANS = [
  ['1', 'The last hour'],
  ['24', 'The last 24 hours'],
  ['168', 'The last 7 days'],
  ['0', 'As long as they are kept'],
] as const;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

function ResendDialog({
  project,
  hook,
  onClose,
  onDone,
}: {
  project: Project;
  hook: ShownWebhook;
  onClose: () => void;
  onDone: () => Promise<void>;
}) {
  const [hours, setHours] = useState('0');
  const [status, setStatus] = useState('undelivered');
  const choices = useLoad(() => get<Choices>('/choices'), []);
  // Times before the oldest deliveries are refused.
  const oldestMs = (choices.data?.failedDays ?? 1) * DAY_MS - MINUTE_MS;
  return (
    <Dialog title="Resend deliveries" onClose={onClose}>
      <Form
        submit="Resend"
        onCancel={onClose}
        onSubmit={async () => {
          const since = Date.now() - (hours === '0' ? oldestMs : Math.min(oldestMs, Number(hours) * HOUR_MS));
          const { queued, remaining } = await hookCall<{ queued: number; remaining: number }>(
            project.id,
            'POST',
            `/${hook.webhookID}/resend`,
            { status, since: new Date(since).toISOString() },
          );
          const more = remaining > 0 ? `; ${number(remaining)} more: resend again` : '';
          toast(
            queued === 0
              ? 'No such delivery in this time'
              : `${count(queued, 'delivery', 'deliveries')} ${queued === 1 ? 'is' : 'are'} sent again${more}`,
          );
          onClose();
          await onDone();
        }}
      >
        <p>
          Waiting deliveries are attempted now. Finished ones are sent again, oldest first, with one attempt each and
          the same id.
        </p>
        <SelectField label="Deliveries" value={status} options={RESENT} onValue={setStatus} />
        <SelectField label="Created in" value={hours} options={SPANS} onValue={setHours} />
      </Form>
    </Dialog>
  );
}

// -------------------------------------------------------------------------------------------------------- one delivery

export function DeliveryPage({ project, hookId, id }: { project: Project; hookId: string; id: string }) {
  const delivery = useLoad(
    () => hookCall<ShownDelivery>(project.id, 'GET', `/${hookId}/deliveries/${id}`),
    [hookId, id],
    WATCH_MS,
  );
  const hooks = useLoad(() => hookCall<readonly ShownWebhook[]>(project.id, 'GET', ''), [project.id]);
  const type = hooks.data?.find(({ webhookID }) => webhookID === hookId)?.webhookType;
  const resend = async () => {
    await hookCall(project.id, 'POST', `/${hookId}/deliveries/${id}/resend`, {});
    toast('The delivery is sent now');
    await delivery.reload();
  };
  return (
    <>
      <Head
        title="Delivery"
        back={{ href: href(['p', project.id, 'webhooks', hookId]), text: 'Webhook' }}
        {...(delivery.data === null
          ? {}
          : { note: <TransactionNote project={project} signature={delivery.data.signature} type={type} /> })}
        actions={
          delivery.data !== null && (
            <Changes>
              <Button kind="main" icon={RotateCw} onClick={resend}>
                {delivery.data.status === 'pending' ? 'Send now' : 'Resend'}
              </Button>
            </Changes>
          )
        }
      />
      <Show of={delivery} lines={8}>
        {(found) => <DeliveryDetail delivery={found} />}
      </Show>
    </>
  );
}

function TransactionNote({
  project,
  signature,
  type,
}: {
  project: Project;
  signature: string;
  /** Of the webhook; undefined: not known yet, or it is deleted. */
  type: string | undefined;
}) {
  const { genesisHashes } = useWorld();
  const chain = type?.endsWith('Devnet') === true ? 'devnet' : 'main';
  const address = type === undefined ? null : explorerAddress(signature, genesisHashes[chain]);
  return (
    <>
      <Id text={signature} kept={12} to={href(['p', project.id, 'look-up', signature])} />{' '}
      {address !== null && (
        <a class="small" href={address} target="_blank" rel="noreferrer">
          Solana Explorer <ExternalLink size={13} aria-hidden />
        </a>
      )}
    </>
  );
}

/** `http_status 500` and the like in words. */
function reasonText(reason: string): string {
  const [failure = '', status] = reason.split(' ');
  return /^(timeout|connection|dns|tls|blocked_address|http_status|unsendable)$/.test(failure)
    ? failureText(failure, status === undefined ? null : Number(status))
    : reason;
}

function DeliveryDetail({ delivery }: { delivery: ShownDelivery }) {
  const { attempts } = delivery;
  const last = attempts.at(-1);
  return (
    <>
      <Card flush>
        <dl class="stats">
          <Stat name="State" {...(delivery.reason === null ? {} : { note: reasonText(delivery.reason) })}>
            <StateBadge state={delivery.status} />
          </Stat>
          <Stat name="Status">
            <StatusCode attempt={last} />
          </Stat>
          <Stat name="Type">{delivery.type ?? '–'}</Stat>
          <Stat name="Slot">{number(delivery.slot)}</Stat>
          <Stat name="Created">
            <Time at={delivery.createdAt} />
          </Stat>
          {delivery.nextAttemptAt !== null && (
            <Stat name="Next attempt">
              <Time at={delivery.nextAttemptAt} isPlanned />
            </Stat>
          )}
        </dl>
      </Card>
      <Card title="Attempts" note={attempts.length === 0 ? 'none yet' : count(attempts.length, 'attempt')}>
        {attempts.length === 0 && <p class="soft">The first attempt has not been made yet.</p>}
        <ol class="timeline">
          {[...attempts].reverse().map((attempt, at) => (
            <AttemptItem key={`${attempt.at} ${attempt.attempt}`} attempt={attempt} isOpen={at === 0} />
          ))}
        </ol>
      </Card>
      <Card title="Payload" note="the element of this transaction as it is sent; in a batch it is one of several">
        {delivery.body === undefined ? (
          <p class="soft">The payload is no longer stored.</p>
        ) : (
          <Code label="payload" value={delivery.body} />
        )}
      </Card>
    </>
  );
}

function AttemptItem({ attempt, isOpen }: { attempt: ShownAttempt; isOpen: boolean }) {
  const isDone = attempt.failure === null;
  return (
    <li class={isDone ? 'good' : 'bad'}>
      <details open={isOpen}>
        <summary>
          <span class="strong">
            {isDone ? 'Delivered' : `Failed: ${failureText(attempt.failure, attempt.statusCode)}`}
          </span>
          <StatusCode attempt={attempt} />
          <span class="soft">
            attempt {attempt.attempt}, {duration(attempt.durationMs)}, {utc(Date.parse(attempt.at))} UTC
          </span>
        </summary>
        <div class="exchange">
          <Headers title="Request headers" headers={attempt.requestHeaders} missing="not known" />
          <div>
            <Headers
              title="Response headers"
              headers={attempt.responseHeaders}
              missing={attempt.statusCode === null ? 'no response' : 'not stored for this attempt'}
            />
            <h3>Response body</h3>
            {attempt.responseBody === null ? (
              <p class="soft">{attempt.statusCode === null ? 'No response.' : 'Empty.'}</p>
            ) : (
              <Code label="response body" value={attempt.responseBody} />
            )}
            <p class="soft small">The first 4 kB of a response are stored.</p>
          </div>
        </div>
      </details>
    </li>
  );
}

function Headers({
  title,
  headers,
  missing,
}: {
  title: string;
  headers: Readonly<Record<string, string>> | undefined;
  missing: string;
}) {
  const entries = Object.entries(headers ?? {});
  return (
    <div>
      <h3>{title}</h3>
      {entries.length === 0 ? (
        <p class="soft">{capital(missing)}.</p>
      ) : (
        <dl class="headers">
          {entries.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}
