import { type ComponentChildren, render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { messageOf } from '../../../src/lib/coded-error.ts';
import {
  ApiError,
  endSessions,
  get,
  type Login,
  login,
  logout,
  onSession,
  type ProjectsAnswer,
  provider,
  providerAddress,
  session,
  type Who,
} from './api.ts';
import { DeliveriesPage, DeliveryPage } from './deliveries.tsx';
import {
  Activity,
  Blocks,
  Braces,
  ChevronDown,
  FlaskConical,
  FolderKanban,
  GitFork,
  HardDriveDownload,
  KeyRound,
  LayoutDashboard,
  ListTree,
  LogOut,
  Menu as MenuIcon,
  Monitor,
  Moon,
  Puzzle,
  Scale,
  ScrollText,
  Search,
  Settings2,
  ShieldCheck,
  Sun,
  Wallet,
  Webhook,
  X,
} from './icons.tsx';
import { InterfacesPage } from './interfaces.tsx';
import { LookUpPage } from './look-up.tsx';
import { AuditPage, ConfigPage, GapsPage, PluginsPage, TreesPage, WalletsPage } from './operation.tsx';
import { OperatorsPage } from './operators.tsx';
import { OverviewPage, ProjectOverviewPage } from './overview.tsx';
import { Palette, type PaletteCommand, usePalette } from './palette.tsx';
import { go, href, type Place, usePlace, useWorld, type World, WorldContext } from './place.ts';
import { PlaygroundPage } from './playground.tsx';
import { isPortal, visitor } from './portal.ts';
import { KeysPage, ProjectsPage } from './projects.tsx';
import { RequestPage } from './request.tsx';
import { ShadowPage } from './shadow.tsx';
import { SinksPage } from './sinks.tsx';
import {
  Button,
  Card,
  CommandLine,
  Confirm,
  clearToasts,
  Dialog,
  Empty,
  Form,
  Head,
  type Icon,
  IconButton,
  Menu,
  Notice,
  Segments,
  SelectField,
  TextField,
  Toasts,
  toast,
  useLoad,
} from './ui.tsx';
import { RequestsPage, UsagePage } from './usage.tsx';
import { WebhooksPage } from './webhooks.tsx';

interface Entry {
  readonly path: string;
  readonly name: string;
  readonly icon: Icon;
}

const OF_PROJECT: readonly Entry[] = [
  { path: 'webhooks', name: 'Webhooks', icon: Webhook },
  { path: 'keys', name: 'API keys', icon: KeyRound },
  { path: 'usage', name: 'Usage', icon: Activity },
  { path: 'requests', name: 'Requests', icon: ScrollText },
  { path: 'look-up', name: 'Look up', icon: Search },
  { path: 'interfaces', name: 'Interfaces', icon: Braces },
];
const OF_DAEMON: readonly Entry[] = [
  { path: 'projects', name: 'Projects', icon: FolderKanban },
  { path: 'gaps', name: 'Gaps and backfill', icon: Blocks },
  { path: 'wallets', name: 'Wallets', icon: Wallet },
  { path: 'trees', name: 'Trees', icon: GitFork },
  { path: 'sinks', name: 'Sinks', icon: HardDriveDownload },
  { path: 'shadow', name: 'Shadow', icon: Scale },
  { path: 'plugins', name: 'Plugins', icon: Puzzle },
  { path: 'config', name: 'Configuration', icon: Settings2 },
  { path: 'operators', name: 'Operators', icon: ShieldCheck },
  { path: 'audit', name: 'Audit log', icon: ListTree },
];
const PLAYGROUND: Entry = { path: 'playground', name: 'Playground', icon: FlaskConical };

/** Pages of operators; the playground only where the daemon runs its local chain, for those who may use it. */
const ofDaemon = ({ isLocalChain, who }: World): readonly Entry[] =>
  isLocalChain && who.role === 'operator' ? [PLAYGROUND, ...OF_DAEMON] : OF_DAEMON;

// --------------------------------------------------------------------------------------------------------------- theme

type Theme = 'system' | 'light' | 'dark';
const THEMES: readonly Theme[] = ['system', 'light', 'dark'];
const THEME_ICONS = { system: Monitor, light: Sun, dark: Moon } as const;

/** In the portal it is that of the page around it, by the address. */
function readTheme(): Theme {
  const kept = isPortal ? new URLSearchParams(location.search).get('theme') : localStorage.getItem('theme');
  return THEMES.find((theme) => theme === kept) ?? 'system';
}

function applyTheme(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
  // Plots are painted, and must be painted again.
  dispatchEvent(new Event('themechange'));
}

function ThemeSwitch() {
  const [theme, setTheme] = useState(readTheme);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] as Theme;
  return (
    <IconButton
      label={`Theme: ${theme}. Change to ${next}`}
      icon={THEME_ICONS[theme]}
      onClick={() => {
        if (next === 'system') localStorage.removeItem('theme');
        else localStorage.setItem('theme', next);
        applyTheme(next);
        setTheme(next);
      }}
    />
  );
}

// --------------------------------------------------------------------------------------------------------------- login

const enterAs = (kind: 'operator' | 'project', fields: { token: string; project: string; secret: string }): Login =>
  kind === 'operator' ? { token: fields.token } : { project: fields.project.trim(), secret: fields.secret };

function LoginForm({ onDone, first }: { onDone: (who: Who) => void; first: 'operator' | 'project' }) {
  const [kind, setKind] = useState(first);
  const [fields, setFields] = useState({ token: '', project: '', secret: '' });
  const [host, setHost] = useState<string | null>(null);
  useEffect(() => {
    void provider().then(setHost);
  }, []);
  const set = (name: keyof typeof fields) => (value: string) => setFields({ ...fields, [name]: value });
  const options = [
    ['operator', 'Operator'],
    ['project', 'Project'],
  ] as const;
  return (
    <Form submit="Log in" onSubmit={async () => onDone(await login(enterAs(kind, fields)))}>
      <Segments label="Log in as" options={options} value={kind} onChange={setKind} />
      {kind === 'operator' && host !== null && (
        <p>
          <a class="button main" href={providerAddress}>
            Log in with {host}
          </a>
        </p>
      )}
      {kind === 'operator' ? (
        <TextField
          key="token"
          label="Operator token"
          type="password"
          autoComplete="current-password"
          autoFocus
          required
          hint={
            <>
              Your own, of the page Operators; or the one shown at the first start, or set as{' '}
              <code>dashboard.operatorToken</code>. If that is lost:{' '}
              <CommandLine line="parhelion dashboard renew-token" />
            </>
          }
          value={fields.token}
          onValue={set('token')}
        />
      ) : (
        <>
          <TextField
            key="project"
            label="Project id"
            autoComplete="username"
            autoFocus
            required
            spellcheck={false}
            value={fields.project}
            onValue={set('project')}
          />
          <TextField
            key="secret"
            label="Dashboard secret"
            type="password"
            autoComplete="current-password"
            required
            hint="An operator creates it on the page Projects."
            value={fields.secret}
            onValue={set('secret')}
          />
        </>
      )}
    </Form>
  );
}

/** Why the identity provider led back here, by the query of the address. */
const WHY_BACK: Readonly<Record<string, string>> = {
  refused: 'The identity provider did not let you in, or nobody has given you a role here',
  failed: 'The identity provider does not answer',
};

function LoginPage({ onDone }: { onDone: (who: Who) => void }) {
  const [why] = useState(() => WHY_BACK[new URLSearchParams(location.search).get('login') ?? '']);
  useEffect(() => {
    document.title = 'Log in – Parhelion';
  }, []);
  return (
    <main class="login" id="main" tabIndex={-1}>
      <Brand />
      <Card>
        <h1>Log in</h1>
        {why !== undefined && <Notice tone="bad" title={why} role="alert" />}
        <LoginForm onDone={onDone} first="operator" />
      </Card>
      <ThemeSwitch />
    </main>
  );
}

/** The portal without a session: only a new link helps, which the page around it asks for. */
function PortalEnded() {
  return (
    <main class="login" id="main" tabIndex={-1}>
      <Card>
        <h1>This page has ended</h1>
        <p class="soft">
          Its link works once and for a short time, and a session that nobody uses ends. Load the page again.
        </p>
      </Card>
    </main>
  );
}

// --------------------------------------------------------------------------------------------------------------- shell

function Brand() {
  return (
    <span class="brand">
      <img src="/dashboard/icon.svg" alt="" width="28" height="28" />
      Parhelion
    </span>
  );
}

function NavLink({ to, name, icon: Picture, isHere }: { to: string; name: string; icon: Icon; isHere: boolean }) {
  return (
    <li>
      <a href={to} {...(isHere ? { 'aria-current': 'page' as const } : {})}>
        <Picture size={18} aria-hidden />
        {name}
      </a>
    </li>
  );
}

/** Leads from any page to what the API knows of an address or a signature. */
function LookUpField({ project }: { project: string }) {
  const [text, setText] = useState('');
  const search = (event: Event) => {
    event.preventDefault();
    if (text.trim() === '') return;
    go(['p', project, 'look-up', text.trim()]);
    setText('');
  };
  return (
    <form class="find" onSubmit={search}>
      <input
        type="search"
        aria-label="Look up an address or a signature"
        placeholder="Address or signature"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </form>
  );
}

function Navigation({ place }: { place: Place }) {
  const world = useWorld();
  const { who, projects, project, hasInterfaces } = world;
  const [area = 'overview', , page] = place.path;
  const isOperator = who.role !== 'project';
  return (
    <nav aria-label="Pages">
      {project !== null && <LookUpField project={project.id} />}
      <ul>
        <NavLink to={href(['overview'])} name="Overview" icon={LayoutDashboard} isHere={area === 'overview'} />
      </ul>
      <p class="group" id="nav-project">
        Project
      </p>
      {isOperator && projects.length > 0 && (
        <SelectField
          label="Current project"
          value={project?.id ?? ''}
          options={projects.map(({ id, name }) => [id, name === '' ? id.slice(0, 8) : name] as const)}
          onValue={(id) => {
            const next = area === 'p' ? (page ?? 'webhooks') : 'webhooks';
            go(['p', id, next]);
          }}
        />
      )}
      {!isOperator && <p class="of">{project?.name}</p>}
      {project !== null && (
        <ul aria-labelledby="nav-project">
          {OF_PROJECT.filter(({ path }) => hasInterfaces || path !== 'interfaces').map(({ path, name, icon }) => (
            <NavLink
              key={path}
              to={href(['p', project.id, path])}
              name={name}
              icon={icon}
              isHere={area === 'p' && page === path}
            />
          ))}
        </ul>
      )}
      {isOperator && (
        <>
          <p class="group" id="nav-daemon">
            Service
          </p>
          <ul aria-labelledby="nav-daemon">
            {ofDaemon(world).map(({ path, name, icon }) => (
              <NavLink key={path} to={href([path])} name={name} icon={icon} isHere={area === path} />
            ))}
          </ul>
        </>
      )}
    </nav>
  );
}

/** Whose sessions a user can end. */
const WHOSE = { operator: 'all users', viewer: 'your own token', project: 'this project' } as const;

function Account({ onEnd, onFind }: { onEnd: () => void; onFind: () => void }) {
  const { who } = useWorld();
  const [asks, setAsks] = useState(false);
  const whose = WHOSE[who.role];
  const out = async () => {
    await logout();
    onEnd();
  };
  return (
    <div class="account">
      <IconButton label="Go to a page, webhook or address (Ctrl+K)" icon={Search} onClick={onFind} />
      <ThemeSwitch />
      <Menu
        label="Session"
        items={[
          { label: 'Log out', icon: LogOut, onSelect: out },
          { label: 'End all sessions…', icon: X, isDanger: true, onSelect: () => setAsks(true) },
        ]}
      >
        {who.name ?? (who.role === 'project' ? 'Project' : 'Operator')}
        <ChevronDown size={16} aria-hidden />
      </Menu>
      {asks && (
        <Confirm
          title="End all sessions?"
          submit="End all sessions"
          onClose={() => setAsks(false)}
          onConfirm={async () => {
            await endSessions();
            onEnd();
          }}
        >
          <p>This ends the sessions of {whose}, including this one.</p>
        </Confirm>
      )}
    </div>
  );
}

/** The navigation as a drawer of narrow screens. */
function Drawer({ onClose, children }: { onClose: () => void; children: ComponentChildren }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    // The backdrop is a part of the dialog.
    dialog?.addEventListener('click', (event) => event.target === dialog && onClose());
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={element} class="drawer" aria-label="Navigation" onClose={onClose}>
      <header>
        {isPortal ? <span /> : <Brand />}
        <IconButton label="Close the navigation" icon={X} onClick={onClose} />
      </header>
      {children}
    </dialog>
  );
}

function Page({ place }: { place: Place }) {
  const { who, project, projects, hasInterfaces, isLocalChain } = useWorld();
  const [area = 'overview', id, page, hook, part, delivery] = place.path;
  const isOperator = who.role !== 'project';
  if (area === 'p') {
    const chosen = projects.find((one) => one.id === id);
    if (chosen === undefined) return <Missing />;
    if (page === 'keys') return <KeysPage project={chosen} />;
    if (page === 'usage') return <UsagePage project={chosen} />;
    if (page === 'requests')
      return hook === undefined ? <RequestsPage project={chosen} /> : <RequestPage project={chosen} id={hook} />;
    if (page === 'look-up') return <LookUpPage project={chosen} address={hook ?? null} query={place.query} />;
    if (page === 'interfaces' && hasInterfaces) return <InterfacesPage project={chosen} program={hook ?? null} />;
    if (page === 'webhooks' && hook === undefined) return <WebhooksPage project={chosen} />;
    if (page === 'webhooks' && hook !== undefined && part === undefined)
      return <DeliveriesPage project={chosen} hookId={hook} query={place.query} />;
    if (page === 'webhooks' && hook !== undefined && part === 'deliveries' && delivery !== undefined)
      return <DeliveryPage project={chosen} hookId={hook} id={delivery} />;
    return <Missing />;
  }
  if (area === 'overview')
    return isOperator ? (
      <OverviewPage query={place.query} />
    ) : project === null ? (
      <Missing />
    ) : (
      <ProjectOverviewPage project={project} />
    );
  if (!isOperator) return <Missing />;
  if (area === 'playground' && isLocalChain) return <PlaygroundPage />;
  if (area === 'projects') return <ProjectsPage />;
  if (area === 'gaps') return <GapsPage />;
  if (area === 'wallets') return <WalletsPage />;
  if (area === 'trees') return <TreesPage />;
  if (area === 'sinks') return <SinksPage />;
  if (area === 'shadow') return <ShadowPage group={id ?? null} />;
  if (area === 'plugins') return <PluginsPage />;
  if (area === 'config') return <ConfigPage />;
  if (area === 'operators') return <OperatorsPage />;
  if (area === 'audit') return <AuditPage />;
  return <Missing />;
}

function Missing() {
  return (
    <>
      <Head title="Not found" />
      <Card>
        <Empty title="There is no such page" action={<Button onClick={() => go(['overview'])}>To the overview</Button>}>
          The address may be mistyped, or the project is not yours.
        </Empty>
      </Card>
    </>
  );
}

/** The project of the address, else the one before, else the first; the portal has one, and may not be allowed to keep anything. */
function chosenProject(projects: ProjectsAnswer['projects'], path: readonly string[]) {
  const named = path[0] === 'p' ? path[1] : isPortal ? null : sessionStorage.getItem('project');
  return projects.find(({ id }) => id === named) ?? projects[0] ?? null;
}

/** The pages of the navigation, for the palette. */
function pagesOf(world: World): readonly PaletteCommand[] {
  const { who, project, hasInterfaces } = world;
  const ofProject = project === null ? [] : OF_PROJECT.filter(({ path }) => hasInterfaces || path !== 'interfaces');
  return [
    { name: 'Overview', kind: 'Page', path: ['overview'] },
    ...ofProject.map(({ path, name }) => ({ name, kind: 'Page', path: ['p', project?.id ?? '', path] })),
    ...(who.role === 'project' ? [] : ofDaemon(world)).map(({ path, name }) => ({ name, kind: 'Page', path: [path] })),
  ];
}

function Shell({ who, onEnd }: { who: Who; onEnd: () => void }) {
  const place = usePlace();
  const projects = useLoad(() => get<ProjectsAnswer>('/projects'), []);
  const [isOpen, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const address = place.path.join('/');
  const isFirst = useRef(true);
  const { data } = projects;
  const [finds, setFinds] = usePalette();
  const project = data === null ? null : chosenProject(data.projects, place.path);
  useEffect(() => {
    if (project !== null && !isPortal) sessionStorage.setItem('project', project.id);
  }, [project?.id]);
  // Addresses without a project are those of the current one.
  useEffect(() => {
    const [area] = place.path;
    if (project !== null && OF_PROJECT.some(({ path }) => path === area)) go(['p', project.id, ...place.path]);
  }, [address, project?.id]);
  useEffect(() => {
    setOpen(false);
    if (isFirst.current) isFirst.current = false;
    else {
      clearToasts();
      main.current?.focus();
      scrollTo(0, 0);
    }
  }, [address]);
  if (data === null)
    return (
      <main class="login" id="main">
        {projects.error === null ? (
          <p class="soft">Loading…</p>
        ) : (
          <Notice tone="bad" title={projects.error.message} role="alert">
            <Button onClick={projects.reload}>Try again</Button>
          </Notice>
        )}
      </main>
    );
  const world = { who, ...data, project, reloadProjects: projects.reload };
  return (
    <WorldContext.Provider value={world}>
      {/* biome-ignore lint/a11y/useValidAnchor: a link within the page, whose target must not become the address of the page. */}
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to content
      </a>
      <header class="top">
        <IconButton label="Open the navigation" icon={MenuIcon} onClick={() => setOpen(true)} />
        {/* The page around the portal has its own name and account. */}
        {isPortal ? <span class="brand">{project?.name}</span> : <Brand />}
        {!isPortal && <Account onEnd={onEnd} onFind={() => setFinds(true)} />}
      </header>
      <aside class="side" aria-label="Sidebar">
        {!isPortal && <Brand />}
        <Navigation place={place} />
        {!isPortal && (
          <footer>
            <Account onEnd={onEnd} onFind={() => setFinds(true)} />
            <p class="soft small">
              <a href="/docs/guide">Guide</a> · Version {who.version}
            </p>
          </footer>
        )}
      </aside>
      {isOpen && (
        <Drawer onClose={() => setOpen(false)}>
          <Navigation place={place} />
        </Drawer>
      )}
      {finds && <Palette pages={pagesOf(world)} onClose={() => setFinds(false)} />}
      <main id="main" ref={main} tabIndex={-1}>
        <Page key={address} place={place} />
      </main>
    </WorldContext.Provider>
  );
}

/** By what a user is told from another one. */
const NAMED_BY = ['role', 'name', 'projectId'] as const;

function Root() {
  const [who, setWho] = useState<Who | null | undefined>(undefined);
  const [isReachable, setReachable] = useState(true);
  const [failed, setFailed] = useState<string | null>(null);
  const [asking, setAsking] = useState<{ done: () => void } | null>(null);
  const pending = useRef<Promise<void> | null>(null);
  const known = useRef<Who | null>(null);
  known.current = who ?? null;

  const begin = async () => {
    setFailed(null);
    try {
      setWho(await (isPortal ? visitor() : session()));
    } catch (error) {
      setFailed(messageOf(error));
    }
  };
  useEffect(() => {
    // Calls that find the session ended wait for one log-in together.
    const ask = () => {
      // Nobody can log in here.
      if (isPortal) {
        setWho(null);
        return Promise.reject(new ApiError(401, 'The session has ended'));
      }
      pending.current ??= new Promise<void>((resolve) => {
        setAsking({
          done() {
            pending.current = null;
            setAsking(null);
            resolve();
          },
        });
      });
      return pending.current;
    };
    onSession(ask, setReachable);
    void begin();
  }, []);

  return (
    <>
      {!isReachable && who !== undefined && (
        <p class="offline" role="status">
          No connection to the daemon. What you see may be old; trying again…
        </p>
      )}
      {failed !== null && (
        <main class="login" id="main">
          <Notice tone="bad" title={failed} role="alert">
            <Button onClick={begin}>Try again</Button>
          </Notice>
        </main>
      )}
      {who === null && (isPortal ? <PortalEnded /> : <LoginPage onDone={setWho} />)}
      {who !== null && who !== undefined && <Shell who={who} onEnd={() => setWho(null)} />}
      {asking !== null && who !== null && (
        <Dialog title="Log in again" onClose={() => {}} stays>
          <p class="soft">The session has ended. Nothing on the page is lost.</p>
          <LoginForm
            first={who?.role === 'project' ? 'project' : 'operator'}
            onDone={(next) => {
              const before = known.current;
              // Somebody else: what is on the page is not theirs.
              const isOther = before !== null && NAMED_BY.some((member) => before[member] !== next[member]);
              if (isOther) location.reload();
              else {
                setWho(next);
                asking.done();
                toast('Logged in again');
              }
            }}
          />
        </Dialog>
      )}
      <Toasts />
    </>
  );
}

applyTheme(readTheme());
render(<Root />, document.getElementById('app') as HTMLElement);
