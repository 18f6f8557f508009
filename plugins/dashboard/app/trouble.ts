/** What is wrong with the daemon, as sentences with what to do. */
import type {
  LiveChain,
  LiveStatus,
  LiveUpstream,
  Project,
  ReadinessView,
  SeriesPoint,
  ShownFailingHook,
} from './api.ts';
import { capital, count, number, span } from './format.ts';

export interface Trouble {
  readonly tone: 'bad' | 'warn';
  readonly title: string;
  readonly advice: string;
  /** A page with more about it. */
  readonly link?: { readonly path: readonly string[]; readonly text: string };
}

const chainName = ({ chain, cluster }: LiveChain): string =>
  chain === 'main' ? (cluster === 'unknown' ? 'the main chain' : cluster) : `the second chain (${cluster})`;

function ofChain(chain: LiveChain): Trouble[] {
  const name = chainName(chain);
  const found: Trouble[] = [];
  if (chain.stalled !== null)
    found.push({
      tone: 'bad',
      title: `Following ${name} is stalled: ${chain.stalled}`,
      advice:
        'Webhooks and wallets get nothing new until it continues. Look at the upstreams, then run `parhelion doctor`.',
    });
  else if (chain.isLate && chain.lagSeconds !== null)
    found.push({
      tone: 'warn',
      title: `${capital(name)} is followed ${span(chain.lagSeconds * 1_000)} behind its tip`,
      advice: 'After a start the follower catches up. If the lag grows, the upstreams or the disk are too slow.',
    });
  if (chain.finalityAlarm !== null)
    found.push({
      tone: 'bad',
      title: `On ${name}, ${chain.finalityAlarm}`,
      advice:
        'What is followed goes on unchanged. Compare the block of that slot with other nodes: a node or the Yellowstone server may serve another chain.',
    });
  for (const text of chain.distrusted ?? [])
    found.push({
      tone: 'warn',
      title: `An upstream is left out: ${text}`,
      advice: 'Its answer was proven wrong. If it happens again, take it out of upstream.urls.',
    });
  for (const text of chain.leftBehind ?? [])
    found.push({
      tone: 'warn',
      title: `A plugin is left behind: ${text}`,
      advice: 'The chain goes on without it. The log has the error; the plugin catches up once it works again.',
      link: { path: ['gaps'], text: 'Gaps and backfill' },
    });
  if (chain.openGaps > 0)
    found.push({
      tone: 'warn',
      title:
        chain.openGaps === 1
          ? `A range of slots of ${name} is missing`
          : `${number(chain.openGaps)} ranges of slots of ${name} are missing`,
      advice:
        chain.openGaps === 1
          ? 'It is filled as soon as an upstream has its blocks. An archive upstream helps with old ones; the page Gaps and backfill says how to give it up.'
          : 'They are filled as soon as an upstream has the blocks. An archive upstream helps with old ones; the page Gaps and backfill says how to give one up.',
      link: { path: ['gaps'], text: 'Gaps and backfill' },
    });
  return found;
}

function ofUpstreams(upstreams: readonly LiveUpstream[]): Trouble[] {
  const chains = [...new Set(upstreams.map(({ chain }) => chain))];
  return chains.flatMap((chain): Trouble[] => {
    const all = upstreams.filter((one) => one.chain === chain);
    const ill = all.filter(({ healthy }) => !healthy);
    if (ill.length === 0) return [];
    const reasons = ill.map(({ label, reason }) => `${label}: ${reason ?? 'no reason known'}`).join('; ');
    if (ill.length === all.length)
      return [
        {
          tone: 'bad',
          title: `No upstream of ${chain} works (${reasons})`,
          advice:
            'Calls fail, and nothing is followed. Check that the nodes run and that their addresses and keys are right.',
        },
      ];
    return [
      {
        tone: 'warn',
        title: `${count(ill.length, 'upstream')} of ${number(all.length)} of ${chain} ${ill.length === 1 ? 'does' : 'do'} not work (${reasons})`,
        advice: 'The others take its calls. It is used again as soon as it answers.',
      },
    ];
  });
}

/** Checks that say what the chains and upstreams say too. */
const SAID_ELSEWHERE = /^(chain |upstream)/;
const CHECK_ADVICE: readonly (readonly [name: RegExp, advice: string])[] = [
  [
    /store/,
    'Check the disk (space, rights) or the database server. Nothing is lost: what cannot be stored is not acknowledged.',
  ],
  [/^role /, 'A part of the daemon does not answer. If it stays so, restart the daemon; the log has the reason.'],
  [/^clients$/, 'Name the proxy in http.trustedProxies; until then all clients count as one.'],
  [/archive$/, 'Look at ledger.archive and its server; the ledger keeps the blocks until it can be written.'],
  [/sinks$/, 'Add an upstream that has these slots (archive: true); a sink goes on by itself.'],
];

function ofChecks({ checks, draining }: ReadinessView): Trouble[] {
  const stops: Trouble[] = draining
    ? [
        {
          tone: 'warn',
          title: 'The daemon is stopping',
          advice: 'New requests are refused until it has started again.',
        },
      ]
    : [];
  const failed = checks.filter(({ ok, name }) => !ok && !SAID_ELSEWHERE.test(name));
  return [
    ...stops,
    ...failed.map(
      ({ name, detail, required }): Trouble => ({
        tone: required === false ? 'warn' : 'bad',
        title: `${capital(name)}: ${detail}`,
        advice:
          CHECK_ADVICE.find(([pattern]) => pattern.test(name))?.[1] ?? 'Run `parhelion doctor`: it says what to do.',
      }),
    ),
  ];
}

const TO_PROJECTS = { path: ['projects'], text: 'Projects' } as const;
const MIN_CALLS = 20;
const BAD_SHARE = 0.2;

/** What the last points of the series say. */
function ofSeries(points: readonly SeriesPoint[]): Trouble[] {
  const sum = (pattern: RegExp): number =>
    points.reduce(
      (all, { sums }) =>
        all + Object.entries(sums).reduce((own, [key, value]) => own + (pattern.test(key) ? value : 0), 0),
      0,
    );
  const found: Trouble[] = [];
  const [requests, errors] = [sum(/^requests\./), sum(/^errors\./)];
  if (requests >= MIN_CALLS && errors / requests >= BAD_SHARE)
    found.push({
      tone: 'warn',
      title: `${Math.round((100 * errors) / requests)} % of the requests of the last minutes failed`,
      advice:
        'The plot of errors shows which product. The page Requests of a project shows status and route of each call.',
      link: TO_PROJECTS,
    });
  return found;
}

const NAMED_HOOKS = 5;

type NamedProject = Pick<Project, 'id' | 'name'>;

const OFF: Readonly<Record<'failure_rate' | 'gone', string>> = {
  failure_rate: 'its deliveries failed',
  gone: 'its receiver is gone',
};

function ofHook(hook: ShownFailingHook, projects: readonly NamedProject[]): Trouble {
  const { webhookID, project, name, host, succeeded, failed, disabledReason } = hook;
  const owner = projects.find(({ id }) => id === project)?.name ?? '';
  // Who sees one project only needs no name of it.
  const of = projects.length > 1 ? ` of ${owner === '' ? project.slice(0, 8) : owner}` : '';
  const called = `Webhook ${name ?? host}${of}`;
  const link = { path: ['p', project, 'webhooks', webhookID], text: 'Open the webhook' };
  if (disabledReason !== null)
    return {
      tone: 'warn',
      title: `${called} was switched off: ${OFF[disabledReason]}`,
      advice: 'It delivers nothing. When its receiver works again, switch it on, and send what failed with Resend.',
      link,
    };
  return {
    tone: 'warn',
    title: `${called}: ${number(failed)} of ${count(failed + succeeded, 'attempt')} of the last hour failed`,
    advice: 'Look at the answers of the receiver. When it works again, send what waits with Resend.',
    link,
  };
}

/** Each webhook that fails, or was switched off because it did, with the page where it is mended. */
function ofHooks(failing: readonly ShownFailingHook[], projects: readonly NamedProject[]): Trouble[] {
  const named = failing.slice(0, NAMED_HOOKS).map((hook) => ofHook(hook, projects));
  const more = failing.length - named.length;
  return more === 0
    ? named
    : [
        ...named,
        {
          tone: 'warn',
          title: `${count(more, 'more webhook')} ${more === 1 ? 'fails or was switched off' : 'fail or were switched off'}`,
          advice: 'The page Webhooks of each project shows them.',
          link: TO_PROJECTS,
        },
      ];
}

/** The worst first. `recent`: the points of the last minutes; `projects`: those that the session sees. */
export function troublesOf(
  health: ReadinessView | null,
  live: LiveStatus | null,
  recent: readonly SeriesPoint[],
  failing: readonly ShownFailingHook[] = [],
  projects: readonly NamedProject[] = [],
): readonly Trouble[] {
  const all = [
    ...(live === null ? [] : [...ofUpstreams(live.upstreams), ...live.chains.flatMap(ofChain)]),
    ...(health === null ? [] : ofChecks(health)),
    ...ofHooks(failing, projects),
    ...ofSeries(recent),
  ];
  // A reason of readiness that no sentence covers must not be lost.
  const isUncovered = health !== null && !health.ready && !all.some(({ tone }) => tone === 'bad');
  const [first] = isUncovered ? health.checks.filter(({ ok }) => !ok) : [];
  const rest: Trouble[] =
    first === undefined
      ? []
      : [{ tone: 'bad', title: `Not ready: ${first.name}: ${first.detail}`, advice: 'Run `parhelion doctor`.' }];
  return [...rest, ...all].sort((a, b) => Number(b.tone === 'bad') - Number(a.tone === 'bad'));
}
