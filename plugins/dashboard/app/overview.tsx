import { useEffect, useMemo, useState } from 'preact/hooks';
import {
  type AnsweredRequest,
  get,
  hookCall,
  type Key,
  type LiveChain,
  type LiveStatus,
  type LiveUpstream,
  liveAddress,
  type Project,
  type ReadinessView,
  type Series,
  type SeriesPoint,
  type ShownFailingHook,
  type ShownWebhook,
  type Usage,
  type VerifiedSlot,
} from './api.ts';
import { FirstSteps } from './first-steps.tsx';
import { bytes, capital, day, duration, number, short, span } from './format.ts';
import { colorsOf, familyPerMinute, type Grid, gridOf, labelsOf, perMinute } from './grid.ts';
import { go, href, useWorld } from './place.ts';
import { type Line, Plot, Spark } from './plot.tsx';
import { isPortal } from './portal.ts';
import { troublesOf } from './trouble.ts';
import { Badge, Button, Card, Empty, Head, Notice, Segments, Show, Stat, Table, useLoad } from './ui.tsx';
import { RequestTable, UsagePlot } from './usage.tsx';

const RANGES = [
  ['1h', '1 h'],
  ['24h', '24 h'],
  ['7d', '7 d'],
] as const;
type Range = (typeof RANGES)[number][0];
const HEALTH_MS = 5_000;
const LATELY_MS = 30_000;
const FAILING_MS = 10_000;
const REOPEN_MS = 2_000;
/** Points that count as the last minutes. */
const RECENT_POINTS = 15;

/** Live values of the daemon. The stream ends with the daemon and with the session; it is opened again after both. */
function useLive(): LiveStatus | null {
  const [live, setLive] = useState<LiveStatus | null>(null);
  useEffect(() => {
    let isOver = false;
    let source: EventSource | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const open = () => {
      source = new EventSource(liveAddress);
      source.addEventListener('status', (event) => setLive(JSON.parse(event.data) as LiveStatus));
      source.addEventListener('error', () => {
        source?.close();
        timer = setTimeout(reopen, REOPEN_MS);
      });
    };
    const reopen = async () => {
      // Asks for a log-in if the session has ended.
      const isThere = await get('/session').then(
        () => true,
        () => false,
      );
      if (isOver) return;
      if (isThere) open();
      else timer = setTimeout(reopen, REOPEN_MS);
    };
    open();
    return () => {
      isOver = true;
      clearTimeout(timer);
      source?.close();
    };
  }, []);
  return live;
}

export function OverviewPage({ query }: { query: URLSearchParams }) {
  const asked = query.get('range');
  const range = RANGES.find(([name]) => name === asked)?.[0] ?? '1h';
  const { project, hasWebhooks } = useWorld();
  const live = useLive();
  const health = useLoad(() => get<ReadinessView>('/health'), [], HEALTH_MS);
  const series = useLoad(() => get<Series>(`/series?range=${range}`), [range], range === '1h' ? 10_000 : 60_000);
  // What is wrong now does not depend on the range that is looked at.
  const lately = useLoad(
    () => (range === '1h' ? Promise.resolve(null) : get<Series>('/series?range=1h')),
    [range],
    LATELY_MS,
  );
  const failing = useLoad(() => get<{ webhooks: readonly ShownFailingHook[] }>('/failing-webhooks'), [], FAILING_MS);
  const hour = range === '1h' ? series.data : lately.data;
  const recent = ((range === '1h' ? series.data : lately.data)?.points ?? []).slice(-RECENT_POINTS);
  return (
    <>
      <Head title="Overview" note={live === null ? 'Connecting…' : chainNote(live.chains)} />
      <Status
        health={health.data}
        live={live}
        recent={recent}
        failing={failing.data?.webhooks ?? []}
        error={health.error}
      />
      {project !== null && hasWebhooks && <FirstSteps project={project} />}
      <KeyFigures health={health.data} live={live} series={hour} failing={failing.data?.webhooks ?? null} />
      <div class="toolbar">
        <h2>Activity</h2>
        <Segments
          label="Time range"
          options={RANGES}
          value={range}
          onChange={(next: Range) => go(['overview'], { range: next })}
        />
      </div>
      <Show of={series} lines={6}>
        {(found) => <Plots series={found} />}
      </Show>
      <div class="columns">
        <Chains chains={live?.chains ?? []} />
        <Upstreams upstreams={live?.upstreams ?? []} />
      </div>
      {(live?.chains ?? []).map((chain) => (
        <Finality key={chain.chain} chain={chain} />
      ))}
      <Checks health={health.data} />
    </>
  );
}

function chainNote(chains: readonly LiveChain[]): string {
  const [main] = chains;
  if (main === undefined) return 'No upstream is configured';
  const name =
    main.kind === 'local' ? 'Local chain' : main.cluster === 'unknown' ? unknown(main) : capital(main.cluster);
  return main.cursorSlot === null ? name : `${name}, followed to slot ${number(main.cursorSlot)}`;
}

const unknown = ({ genesisHash }: LiveChain): string =>
  genesisHash === null ? 'Chain not known yet' : 'Private cluster';

function Status({
  health,
  live,
  recent,
  failing,
  error,
}: {
  health: ReadinessView | null;
  live: LiveStatus | null;
  recent: readonly SeriesPoint[];
  failing: readonly ShownFailingHook[];
  error: Error | null;
}) {
  const { projects } = useWorld();
  const troubles = troublesOf(health, live, recent, failing, projects);
  if (error !== null && health === null) return <Notice tone="bad" title={error.message} role="alert" />;
  if (health === null) return <Notice tone="plain" title="Checking…" />;
  if (troubles.length === 0)
    return (
      <Notice tone="good" title="Everything works" role="status">
        <p class="soft">The daemon is ready, all upstreams answer and nothing is missing.</p>
      </Notice>
    );
  return (
    <div class="stack" role="status">
      {troubles.map(({ tone, title, advice, link }) => (
        <Notice key={`${title} ${link?.path.join('/')}`} tone={tone} title={title}>
          <p class="soft">
            {advice} {link !== undefined && <a href={href(link.path)}>{link.text}</a>}
          </p>
        </Notice>
      ))}
    </div>
  );
}

// --------------------------------------------------------------------------------------------------------- key figures

const newest = (values: readonly (number | null)[]): number | null =>
  values.findLast((value) => value !== null) ?? null;

/** What an operator looks at first: now, with the last hour as a line. */
function KeyFigures({
  health,
  live,
  series,
  failing,
}: {
  health: ReadinessView | null;
  live: LiveStatus | null;
  series: Series | null;
  failing: readonly ShownFailingHook[] | null;
}) {
  const grid = useMemo(() => (series === null ? null : gridOf(series)), [series]);
  const lines = useMemo(() => {
    if (grid === null) return null;
    return {
      requests: familyPerMinute(grid, 'requests'),
      errors: familyPerMinute(grid, 'errors'),
      p99: gauges(grid, ({ latency }) => latency?.p99),
      lag: gauges(grid, ({ peaks }) => peaks['lag.main']),
    };
  }, [grid]);
  const [main] = live?.chains ?? [];
  const [requests, errors, p99] = [lines?.requests, lines?.errors, lines?.p99].map((values) => newest(values ?? []));
  const lag = main?.lagSeconds ?? null;
  const off = failing?.filter(({ disabledReason }) => disabledReason !== null).length ?? 0;
  return (
    <Card flush>
      <dl class="stats figures" aria-label="Key figures">
        <Stat name="Ready" tone={health === null ? 'plain' : health.ready ? 'good' : 'bad'}>
          {health === null ? '–' : health.ready ? 'yes' : 'no'}
        </Stat>
        <Stat
          name="Behind the tip"
          tone={main?.isLate === true ? 'warn' : 'plain'}
          note={<Spark values={lines?.lag ?? []} />}
        >
          {lag === null ? '–' : lag < 1 ? '0 s' : span(lag * 1_000)}
        </Stat>
        <Stat
          name="Failing webhooks"
          tone={(failing ?? []).length > 0 ? 'bad' : 'plain'}
          note={off > 0 ? `${number(off)} switched off` : undefined}
        >
          {number(failing?.length ?? null)}
        </Stat>
        <Stat name="Requests a minute" note={<Spark values={lines?.requests ?? []} />}>
          {requests == null ? '–' : short(requests)}
        </Stat>
        <Stat
          name="Errors a minute"
          tone={(errors ?? 0) > 0 ? 'warn' : 'plain'}
          note={<Spark values={lines?.errors ?? []} />}
        >
          {errors == null ? '–' : short(errors)}
        </Stat>
        <Stat name="Latency, p99" note={<Spark values={lines?.p99 ?? []} />}>
          {p99 == null ? '–' : seconds(p99)}
        </Stat>
      </dl>
    </Card>
  );
}

// --------------------------------------------------------------------------------------------------------------- plots

const PRODUCT_NAMES: Readonly<Record<string, string>> = {
  rpc: 'JSON-RPC',
  webhooks: 'Webhooks',
  wallet: 'Wallet',
  enhanced: 'Enhanced',
  tokens: 'Token metadata',
  sender: 'Sender',
  other: 'Other',
};
const OUTCOME_NAMES: Readonly<Record<string, string>> = {
  done: 'Delivered',
  retry: 'To be retried',
  failed: 'Failed',
  held: 'Held',
  discarded: 'Discarded',
};
const OUTCOME_COLORS: Readonly<Record<string, number>> = { done: 3, retry: 1, failed: 5, held: 4, discarded: 6 };

function linesOf(
  grid: Grid,
  family: string,
  names: Readonly<Record<string, string>>,
  /** Default: one for each name, in their order. */
  colors: Readonly<Record<string, number>> = Object.fromEntries(Object.keys(names).map((name, at) => [name, at + 1])),
): Line[] {
  const order = Object.keys(names);
  const found = labelsOf(grid, family);
  // Nothing happened is not the same as nothing was measured.
  const [first = ''] = order;
  const labels = found.length === 0 ? [first] : [...found].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  const colorOf = colorsOf(labels, colors);
  return labels.map((label) => ({
    name: names[label] ?? label,
    color: colorOf.get(label) as number,
    values: perMinute(grid, [`${family}.${label}`]),
  }));
}

const gauges = ({ points }: Grid, read: (point: SeriesPoint) => number | null | undefined): (number | null)[] =>
  points.map((point) => (point === undefined ? null : (read(point) ?? null)));

const seconds = (value: number): string => (value === 0 ? '0' : duration(value * 1_000));
const percent = (value: number): string => `${Math.round(value)} %`;

function Plots({ series }: { series: Series }) {
  const grid = useMemo(() => gridOf(series), [series]);
  const plots = useMemo(() => {
    const upstreams = labelsOf(grid, 'seen');
    const colorOf = colorsOf(upstreams);
    return {
      requests: linesOf(grid, 'requests', PRODUCT_NAMES),
      errors: linesOf(grid, 'errors', PRODUCT_NAMES),
      latency: (['p50', 'p95', 'p99'] as const).map((name, at) => ({
        name,
        color: [2, 1, 5][at] as number,
        values: gauges(grid, ({ latency }) => latency?.[name]),
      })),
      lag: chainsOf(grid).map((chain, at) => ({
        name: chain === 'main' ? 'Lag' : `Lag of ${chain}`,
        color: at + 1,
        values: gauges(grid, ({ peaks }) => peaks[`lag.${chain}`]),
      })),
      blocks: linesOf(grid, 'blocks', { main: 'Blocks', devnet: 'Blocks of devnet' }),
      deliveries: linesOf(grid, 'deliveries', OUTCOME_NAMES, OUTCOME_COLORS),
      upstreams: upstreams.map((label) => ({
        name: label.replace(/^main /, ''),
        color: colorOf.get(label) as number,
        values: gauges(grid, ({ sums }) => {
          const seen = sums[`seen.${label}`];
          return seen === undefined ? null : (100 * (sums[`healthy.${label}`] ?? 0)) / seen;
        }),
      })),
      store: [{ name: 'Size', color: 2, values: gauges(grid, ({ peaks }) => peaks['storeBytes']) }],
    };
  }, [grid]);
  const { times } = grid;
  return (
    <div class="plots">
      <Card title="Requests" note="per minute, by product">
        <Plot title="Requests per minute by product" times={times} lines={plots.requests} kind="area" />
      </Card>
      <Card title="Errors" note="per minute: status 400 and above, and failed JSON-RPC calls">
        <Plot title="Errors per minute by product" times={times} lines={plots.errors} kind="area" />
      </Card>
      <Card title="Latency" note="of answers, by percentile">
        <Plot title="Latency percentiles" times={times} lines={plots.latency} show={seconds} />
      </Card>
      <Card title="Deliveries" note="attempts per minute, by outcome">
        <Plot title="Attempts to deliver per minute by outcome" times={times} lines={plots.deliveries} kind="area" />
      </Card>
      <Card title="Follower lag" note="behind the tip, the longest of each step">
        <Plot title="Follower lag" times={times} lines={plots.lag} show={seconds} />
      </Card>
      <Card title="Blocks" note="committed per minute">
        <Plot title="Blocks per minute" times={times} lines={plots.blocks} />
      </Card>
      <Card title="Upstream health" note="share of the time in which each upstream was healthy">
        <Plot title="Upstream health" times={times} lines={plots.upstreams} show={percent} />
      </Card>
      <Card title="Store size" note="of the whole database">
        <Plot title="Store size" times={times} lines={plots.store} show={bytes} kind="area" />
      </Card>
    </div>
  );
}

const chainsOf = ({ points }: Grid): readonly string[] => [
  ...new Set(
    points.flatMap((point) => Object.keys(point?.peaks ?? {}).flatMap((key) => /^lag\.(.*)$/.exec(key)?.[1] ?? [])),
  ),
];

// --------------------------------------------------------------------------------------------------------------- state

function Chains({ chains }: { chains: readonly LiveChain[] }) {
  return (
    <Card title="Chains" flush>
      {chains.length === 0 && <Empty title="No chain">No upstream is configured.</Empty>}
      {chains.map((chain) => (
        <dl key={chain.chain} class="stats">
          <Stat
            name="Followed to"
            note={chain.kind === 'local' ? 'local chain' : chain.cluster === 'unknown' ? undefined : chain.cluster}
          >
            {number(chain.cursorSlot)}
          </Stat>
          <Stat name="Tip">{number(chain.tipSlot)}</Stat>
          <Stat name="Behind the tip" tone={chain.isLate ? 'warn' : 'plain'}>
            {chain.lagSeconds === null ? '–' : chain.lagSeconds < 1 ? '0 s' : span(chain.lagSeconds * 1_000)}
          </Stat>
          <Stat name="Open gaps" tone={chain.openGaps > 0 ? 'warn' : 'plain'}>
            {number(chain.openGaps)}
          </Stat>
        </dl>
      ))}
    </Card>
  );
}

const ROUNDS: Readonly<Record<VerifiedSlot['rounds'], string>> = { fast: 'one round', slow: 'two rounds' };

/** Slots that certificates prove final. Where none are checked, the page says why. */
function Finality({ chain: { chain, kind, finality } }: { chain: LiveChain }) {
  // Nobody else signs a local chain.
  if (finality === undefined || kind === 'local') return null;
  const { state, reason, verified, recent } = finality;
  const title = chain === 'main' ? 'Verified finality' : `Verified finality (${chain})`;
  if (state === 'off')
    return (
      <Card title={title}>
        <p class="soft">Certificates of finality are not checked: {reason}.</p>
      </Card>
    );
  return (
    <Card
      title={title}
      note={reason === null ? 'certificates that were checked here' : `not checked now: ${reason}`}
      flush
    >
      <dl class="stats">
        <Stat name="Verified to">{number(verified?.slot ?? null)}</Stat>
        <Stat name="Signed by" note={verified === null ? undefined : ROUNDS[verified.rounds]}>
          {verified === null ? '–' : `${verified.stakePercent} % of the stake`}
        </Stat>
      </dl>
      <Table
        caption="Newest verified slots"
        keyOf={({ slot }) => String(slot)}
        rows={recent}
        empty={<Empty title="No slot is verified yet" />}
        columns={[
          { name: 'Slot', isTitle: true, show: ({ slot }) => number(slot) },
          { name: 'Stake', isNumber: true, show: ({ stakePercent }) => `${stakePercent} %` },
          { name: 'Signed in', show: ({ rounds }) => ROUNDS[rounds] },
        ]}
      />
    </Card>
  );
}

function Upstreams({ upstreams }: { upstreams: readonly LiveUpstream[] }) {
  return (
    <Card title="Upstreams" flush>
      <Table
        caption="Upstreams"
        keyOf={({ chain, label }) => `${chain} ${label}`}
        rows={upstreams}
        empty={<Empty title="No upstreams" />}
        columns={[
          {
            name: 'Upstream',
            isTitle: true,
            show: ({ chain, label }) => (chain === 'main' ? label : `${label} (${chain})`),
          },
          {
            name: 'Health',
            show: ({ healthy, reason }) =>
              healthy ? <Badge tone="good">healthy</Badge> : <Badge tone="bad">{reason ?? 'does not work'}</Badge>,
          },
          { name: 'Slot', isNumber: true, show: ({ slot }) => number(slot) },
          { name: 'In flight', isNumber: true, show: ({ inFlight }) => number(inFlight) },
        ]}
      />
    </Card>
  );
}

function Checks({ health }: { health: ReadinessView | null }) {
  if (health === null) return null;
  return (
    <Card title="Checks of readiness" note="as /readyz reports them" flush>
      <Table
        caption="Checks of readiness"
        keyOf={({ name }) => name}
        rows={health.checks}
        empty={null}
        columns={[
          { name: 'Check', isTitle: true, show: ({ name }) => name },
          {
            name: 'State',
            show: ({ ok, required }) =>
              ok ? <Badge tone="good">ok</Badge> : <Badge tone={required === false ? 'warn' : 'bad'}>not ok</Badge>,
          },
          { name: 'Detail', show: ({ detail }) => <span class="soft">{detail}</span> },
        ]}
      />
    </Card>
  );
}

// ------------------------------------------------------------------------------------------------------------- project

const DAY_MS = 86_400_000;
const SHOWN_REQUESTS = 8;

/** What the owner of a project sees: the project, and nothing of the daemon or of others. */
export function ProjectOverviewPage({ project }: { project: Project }) {
  const { hasWebhooks } = useWorld();
  const [from, to] = useMemo(() => [day(Date.now() - 29 * DAY_MS), day(Date.now())], []);
  const path = `/projects/${project.id}`;
  const usage = useLoad(() => get<Usage>(`${path}/usage?from=${from}&to=${to}`), [project.id], 60_000);
  const hooks = useLoad(() => hookCall<readonly ShownWebhook[]>(project.id, 'GET', ''), [project.id], 30_000);
  const requests = useLoad(
    () => get<{ requests: readonly AnsweredRequest[] }>(`${path}/requests`),
    [project.id],
    5_000,
  );
  const keys = useLoad(() => get<{ keys: readonly Key[] }>(`${path}/keys`), [project.id]);
  const off = hooks.data?.filter(({ active }) => !active) ?? [];
  return (
    <>
      <Head title="Overview" note={`${project.name}, plan ${project.plan}`} />
      {hasWebhooks && !isPortal && <FirstSteps project={project} />}
      <Show of={usage} lines={2}>
        {({ cycle }) => (
          <>
            {cycle.creditsRemaining === 0 && (
              <Notice tone="bad" title="The credits of this cycle are used up" role="status">
                <p class="soft">
                  Calls are refused and deliveries wait until {cycle.creditCycle.end}, or until an operator grants more.
                </p>
              </Notice>
            )}
            <Card title="Credits" flush>
              <dl class="stats">
                <Stat name="Used in this cycle">{short(cycle.creditsUsed)}</Stat>
                <Stat name="Left">
                  {cycle.subscriptionDetails.creditsLimit >= Number.MAX_SAFE_INTEGER
                    ? 'unlimited'
                    : short(cycle.creditsRemaining)}
                </Stat>
                <Stat name="Prepaid left">{short(cycle.prepaidCreditsRemaining)}</Stat>
                <Stat name="Cycle" note={`to ${cycle.creditCycle.end}`}>
                  {cycle.creditCycle.start}
                </Stat>
              </dl>
            </Card>
          </>
        )}
      </Show>
      {off.length > 0 && (
        <Notice tone="warn" title={`${off.length} of ${hooks.data?.length} webhooks are off`} role="status">
          <p class="soft">
            They deliver nothing. <a href={href(['p', project.id, 'webhooks'])}>Webhooks</a>
          </p>
        </Notice>
      )}
      <Show of={usage} lines={4}>
        {({ days }) => <UsagePlot days={days} from={from} to={to} />}
      </Show>
      <Card
        title="Last requests"
        flush
        actions={<Button onClick={() => go(['p', project.id, 'requests'])}>All requests</Button>}
      >
        <Show of={requests}>
          {(found) => (
            <RequestTable
              project={project}
              requests={found.requests.slice(0, SHOWN_REQUESTS)}
              keys={keys.data?.keys ?? []}
            />
          )}
        </Show>
      </Card>
    </>
  );
}
