import { useMemo, useState } from 'preact/hooks';
import {
  type AnsweredRequest,
  type BudgetUse,
  get,
  getText,
  type Key,
  type Project,
  type Usage,
  type UsageDay,
} from './api.ts';
import { bytes, day, duration, number, short, utc } from './format.ts';
import { Download } from './icons.tsx';
import { href } from './place.ts';
import { type Line, Plot } from './plot.tsx';
import {
  Badge,
  Button,
  breakable,
  Card,
  Empty,
  Head,
  Id,
  SelectField,
  Show,
  Stat,
  saveText,
  Table,
  TextField,
  useLoad,
} from './ui.tsx';

const PRODUCT_NAMES: Readonly<Record<string, string>> = {
  rpc: 'JSON-RPC',
  enhancedApi: 'Enhanced',
  walletApi: 'Wallet',
  das: 'DAS',
  webhooks: 'Webhooks',
  laserstreamGrpc: 'Streams',
  laserstreamWebsocket: 'Websockets',
  preConfirmations: 'Pre-confirmations',
  archival: 'Archive',
  photon: 'Compression',
  other: 'Other',
};
const DAY_MS = 86_400_000;
const MAX_DAYS = 400;
/** From this number of credits on, a plan counts as unlimited. */
const UNLIMITED = Number.MAX_SAFE_INTEGER;

/** Credits over time, as a plot, a table and a file. */
export function UsagePage({ project }: { project: Project }) {
  const [from, setFrom] = useState(day(Date.now() - 29 * DAY_MS));
  const [to, setTo] = useState(day(Date.now()));
  const [product, setProduct] = useState('');
  const isRange = from !== '' && to !== '' && from <= to;
  const path = `/projects/${project.id}`;
  const usage = useLoad(
    () =>
      isRange
        ? get<Usage>(`${path}/usage?from=${from}&to=${to}`)
        : Promise.reject(new Error('The first day must not be after the last')),
    [project.id, from, to],
    60_000,
  );
  const budgets = useLoad(() => get<{ budgets: readonly BudgetUse[] }>(`${path}/budgets`), [project.id], 10_000);
  const left = budgets.data?.budgets.filter((one) => !isTold(one)).length ?? 0;
  const products = [...new Set(usage.data?.days.map((one) => one.product) ?? [])].sort();
  return (
    <>
      <Head title="Usage" note={`${project.name}, plan ${project.plan}`} />
      <Show of={usage} lines={2}>
        {({ cycle }) => (
          <Card title="This cycle" flush>
            <dl class="stats">
              <Stat name="Credits used">{number(cycle.creditsUsed)}</Stat>
              <Stat name="Credits left">
                {cycle.subscriptionDetails.creditsLimit >= UNLIMITED ? 'unlimited' : number(cycle.creditsRemaining)}
              </Stat>
              <Stat name="Prepaid left">{number(cycle.prepaidCreditsRemaining)}</Stat>
              <Stat name="Cycle" note={`to ${cycle.creditCycle.end}`}>
                {cycle.creditCycle.start}
              </Stat>
            </dl>
          </Card>
        )}
      </Show>
      <div class="filters">
        <TextField label="From" type="date" value={from} max={to} onValue={setFrom} />
        <TextField label="To" type="date" value={to} min={from} onValue={setTo} />
        <SelectField
          label="Product"
          value={product}
          options={[['', 'All products'], ...products.map((name) => [name, PRODUCT_NAMES[name] ?? name] as const)]}
          onValue={setProduct}
        />
        {isRange && (
          <Button
            icon={Download}
            onClick={async () => {
              const path = `/projects/${project.id}/usage.csv?from=${from}&to=${to}`;
              saveText(`usage-${from}-${to}.csv`, await getText(path));
            }}
          >
            Download CSV
          </Button>
        )}
      </div>
      <Show of={usage} lines={6}>
        {({ days }) => {
          const rows = days.filter((one) => product === '' || one.product === product);
          return (
            <>
              <UsagePlot days={rows} from={from} to={to} />
              <Card title="Days" flush>
                <Table
                  caption="Days"
                  dense
                  keyOf={(row) => `${row.day} ${row.product}`}
                  rows={[...rows].reverse()}
                  empty={<Empty title="No usage in these days" />}
                  columns={[
                    { name: 'Day (UTC)', isTitle: true, show: (row) => <time>{row.day}</time> },
                    { name: 'Product', show: (row) => PRODUCT_NAMES[row.product] ?? row.product },
                    { name: 'Credits', isNumber: true, show: (row) => number(row.credits) },
                    { name: 'Requests', isNumber: true, show: (row) => number(row.requests) },
                    { name: 'Bytes', isNumber: true, show: (row) => (row.bytes === 0 ? '–' : bytes(row.bytes)) },
                  ]}
                />
              </Card>
            </>
          );
        }}
      </Show>
      <Card
        title="Budgets"
        note={`What the project uses now of what all projects share, in all threads and processes. Each process has the whole limit.${
          left === 0 ? '' : ` ${left} that it does not use and that have no limit are left out.`
        }`}
        flush
      >
        <Show of={budgets}>
          {(found) => (
            <Table
              caption="Budgets"
              dense
              keyOf={({ budget }) => budget}
              rows={found.budgets.filter(isTold)}
              empty={<Empty title="Nothing is used now, and nothing has a limit" />}
              columns={[
                { name: 'Budget', isTitle: true, show: ({ budget }) => words(budget) },
                { name: 'Used', isNumber: true, show: ({ budget, used }) => amount(budget, used) },
                {
                  name: 'Limit',
                  isNumber: true,
                  show: ({ budget, limit }) => (limit === null ? 'none' : amount(budget, limit)),
                },
                { name: 'Refused', isNumber: true, show: ({ refused }) => number(refused) },
              ]}
            />
          )}
        </Show>
      </Card>
    </>
  );
}

/** Whether a budget says anything. */
const isTold = ({ used, limit, refused }: BudgetUse): boolean => limit !== null || used > 0 || refused > 0;

const amount = (budget: string, value: number): string => (/bytes$/i.test(budget) ? bytes(value) : number(value));

/** `requestBytes` -> `Request bytes` */
function words(name: string): string {
  const text = name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Credits by day. */
export function UsagePlot({ days, from, to }: { days: readonly UsageDay[]; from: string; to: string }) {
  const [times, credits, requests] = useMemo(() => {
    const all: number[] = [];
    for (let at = Date.parse(from); at <= Date.parse(to) && all.length < MAX_DAYS; at += DAY_MS) all.push(at);
    const sumOf = (read: (one: UsageDay) => number) => {
      const byDay = new Map<string, number>();
      for (const one of days) byDay.set(one.day, (byDay.get(one.day) ?? 0) + read(one));
      return all.map((at) => byDay.get(day(at)) ?? 0);
    };
    const creditLine: Line[] = [{ name: 'Credits', color: 1, values: sumOf((one) => one.credits) }];
    const requestLine: Line[] = [{ name: 'Requests', color: 2, values: sumOf((one) => one.requests) }];
    return [all, creditLine, requestLine];
  }, [days, from, to]);
  return (
    <div class="plots">
      <Card title="Credits" note="by day">
        <Plot title="Credits by day" times={times} lines={credits} kind="bars" sum="total" whole />
      </Card>
      <Card title="Requests" note="by day">
        <Plot title="Requests by day" times={times} lines={requests} kind="bars" sum="total" whole />
      </Card>
    </div>
  );
}

// ------------------------------------------------------------------------------------------------------------ requests

const STATES = [
  ['', 'All'],
  ['ok', 'Successful'],
  ['error', 'Errors'],
] as const;

/** The last calls of a project. */
export function RequestsPage({ project }: { project: Project }) {
  const [state, setState] = useState('');
  const path = `/projects/${project.id}`;
  const requests = useLoad(
    () => get<{ requests: readonly AnsweredRequest[] }>(`${path}/requests`),
    [project.id],
    3_000,
  );
  const keys = useLoad(() => get<{ keys: readonly Key[] }>(`${path}/keys`), [project.id]);
  return (
    <>
      <Head
        title="Requests"
        note={`The last 200 calls of ${project.name} that this daemon answered, each with what it contained and why it failed. A restart empties the list.`}
      />
      <div class="filters">
        <SelectField label="Status" value={state} options={STATES} onValue={setState} />
      </div>
      <Card flush>
        <Show of={requests} lines={8}>
          {(found) => (
            <RequestTable
              project={project}
              tools
              requests={found.requests.filter((one) => state === '' || isError(one) === (state === 'error'))}
              keys={keys.data?.keys ?? []}
            />
          )}
        </Show>
      </Card>
    </>
  );
}

const isError = ({ status, rpcFailed }: AnsweredRequest) => status >= 400 || rpcFailed > 0;
export const toneOf = ({ status, rpcFailed }: AnsweredRequest) =>
  status >= 500 ? 'bad' : status >= 400 || rpcFailed > 0 ? 'warn' : 'good';
/** An error of JSON-RPC mostly comes with 200. */
export function requestStatusOf({ status, rpc, rpcFailed }: AnsweredRequest): string {
  if (status === 499) return 'client left';
  if (rpcFailed === 0 || status >= 400) return String(status);
  return rpc?.startsWith('batch(') ? `${status}, ${rpcFailed} failed` : `${status}, RPC error`;
}

export function keyNameOf(keys: readonly Key[], id: string | null): string {
  if (id === null) return 'no key';
  const key = keys.find((one) => one.id === id);
  return key === undefined ? id.slice(0, 8) : key.name === '' ? `${key.prefix}…` : key.name;
}

/** Letters. */
const SHORT_NAME = 16;

export function RequestTable({
  project,
  requests,
  keys,
  tools = false,
}: {
  project: Project;
  requests: readonly AnsweredRequest[];
  keys: readonly Key[];
  tools?: boolean;
}) {
  const keyName = (id: string | null) => keyNameOf(keys, id);
  return (
    <Table
      caption="Requests, newest first"
      {...(tools ? { tools: 'requests' } : {})}
      dense
      keyOf={({ requestId }) => requestId}
      rows={requests}
      empty={<Empty title="No requests yet">Calls with a key of the project appear here as they are answered.</Empty>}
      columns={[
        {
          name: 'Call',
          isTitle: true,
          value: ({ method, route, rpc }) => `${method} ${rpc ?? route}`,
          show: ({ method, route, rpc, requestId }) => (
            <span class="call">
              <span class="method">{method}</span>{' '}
              <a href={href(['p', project.id, 'requests', requestId])}>
                <code>{breakable(rpc ?? route)}</code>
              </a>
            </span>
          ),
        },
        {
          name: 'Status',
          value: requestStatusOf,
          show: (one) => <Badge tone={toneOf(one)}>{requestStatusOf(one)}</Badge>,
        },
        {
          name: 'Latency',
          isNumber: true,
          value: ({ durationMs }) => durationMs,
          show: ({ durationMs }) => duration(durationMs),
        },
        {
          name: 'Size',
          isNumber: true,
          isMinor: true,
          value: ({ bytesOut }) => bytesOut,
          show: ({ bytesOut }) => bytes(bytesOut),
        },
        { name: 'Credits', isNumber: true, value: ({ credits }) => credits, show: ({ credits }) => short(credits) },
        {
          name: 'Key',
          value: ({ keyId }) => keyName(keyId),
          // A long name breaks rather than push the table out of its card.
          show: ({ keyId }) => (
            <span class={keyName(keyId).length <= SHORT_NAME ? 'one-line' : undefined}>{keyName(keyId)}</span>
          ),
        },
        {
          name: 'Request',
          isMinor: true,
          value: ({ requestId }) => requestId,
          show: ({ requestId }) => <Id text={requestId} kept={6} />,
        },
        {
          name: 'Time (UTC)',
          value: ({ at }) => utc(at),
          show: ({ at, requestId }) => <time title={`Request ${requestId}`}>{utc(at)}</time>,
        },
      ]}
    />
  );
}
