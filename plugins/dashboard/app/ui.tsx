// biome-ignore-all lint/a11y/noRedundantRoles: a browser drops the roles of tables that are shown as blocks.
/** The components that all pages are made of. */

import * as combobox from '@zag-js/combobox';
import * as menu from '@zag-js/menu';
import { normalizeProps, useMachine } from '@zag-js/preact';
import type { ComponentChildren, InputHTMLAttributes } from 'preact';
import { useCallback, useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { messageOf } from '../../../src/lib/coded-error.ts';
import { ApiError, type Project } from './api.ts';
import { ago, middle, planned, utc } from './format.ts';
import {
  Check,
  ChevronDown,
  CircleAlert,
  CircleCheck,
  Copy,
  Download,
  Ellipsis,
  type Icon,
  Info,
  RotateCw,
  Search,
  TriangleAlert,
  Upload,
  X,
} from './icons.tsx';
import { href, useMayChange } from './place.ts';

export type { Icon };
export type Tone = 'good' | 'bad' | 'warn' | 'info' | 'plain';

// ---------------------------------------------------------------------------------------------------------------- data

export interface LoadState<T> {
  readonly data: T | null;
  /** Error of the last load, null after a success; `data` of an earlier load stays. */
  readonly error: Error | null;
  reload(): Promise<void>;
}

/** Loads when `deps` change, then at every interval while the page is visible. A failed load is repeated after a few seconds. */
export function useLoad<T>(load: () => Promise<T>, deps: readonly unknown[], everyMs?: number): LoadState<T> {
  const [state, setState] = useState<{ data: T | null; error: Error | null; deps: readonly unknown[] }>({
    data: null,
    error: null,
    deps,
  });
  const current = useRef({ load, turn: 0 });
  current.current.load = load;
  const run = useCallback(async () => {
    const turn = ++current.current.turn;
    try {
      const data = await current.current.load();
      if (turn === current.current.turn) setState({ data, error: null, deps });
    } catch (error) {
      const failed = error instanceof Error ? error : new Error(String(error));
      if (turn === current.current.turn)
        setState((before) => ({ data: same(before.deps, deps) ? before.data : null, error: failed, deps }));
    }
  }, deps);
  const failed = state.error instanceof ApiError && state.error.status === 0;
  useEffect(() => {
    void run();
    return () => {
      current.current.turn += 1;
    };
  }, [run]);
  useEffect(() => {
    const interval = failed ? RETRY_MS : everyMs;
    if (interval === undefined) return;
    const timer = setInterval(() => document.hidden || void run(), interval);
    return () => clearInterval(timer);
  }, [run, everyMs, failed]);
  const isCurrent = same(state.deps, deps);
  return { data: isCurrent ? state.data : null, error: isCurrent ? state.error : null, reload: run };
}

const RETRY_MS = 3_000;
const same = (a: readonly unknown[], b: readonly unknown[]): boolean => a.every((value, at) => Object.is(value, b[at]));

/** What is loaded, or a placeholder, or what went wrong with a button to try again. */
export function Show<T>({
  of,
  children,
  lines = 3,
}: {
  of: LoadState<T>;
  children: (data: T) => ComponentChildren;
  lines?: number;
}) {
  if (of.data !== null) return <>{children(of.data)}</>;
  if (of.error !== null)
    return (
      <Notice tone="bad" title="This could not be loaded" role="alert">
        <p>{of.error.message}</p>
        <Button onClick={of.reload} icon={RotateCw}>
          Try again
        </Button>
      </Notice>
    );
  return (
    <div class="skeleton" aria-busy="true">
      <span class="hidden">Loading…</span>
      {Array.from({ length: lines }, (_, at) => (
        <span key={at} class="bone" />
      ))}
    </div>
  );
}

// -------------------------------------------------------------------------------------------------------------- toasts

interface Toast {
  readonly id: number;
  readonly tone: 'good' | 'bad';
  readonly text: string;
}

let toasts: readonly Toast[] = [];
let showToasts: (all: readonly Toast[]) => void = () => {};
let lastToast = 0;
const TOAST_MS = { good: 4_000, bad: 12_000 } as const;

function setToasts(next: readonly Toast[]): void {
  toasts = next;
  showToasts(next);
}
const dropToast = (id: number): void => setToasts(toasts.filter((one) => one.id !== id));

export function toast(text: string, tone: Toast['tone'] = 'good'): void {
  const id = ++lastToast;
  setToasts([...toasts.filter((one) => one.text !== text).slice(-2), { id, tone, text }]);
  setTimeout(() => dropToast(id), TOAST_MS[tone]);
}

/** Toasts belong to the page on which they were shown. */
export const clearToasts = (): void => setToasts([]);

/** Shown as a popover: dialogs lie above everything else of the page. */
export function Toasts() {
  const [all, setAll] = useState(toasts);
  const place = useRef<HTMLDivElement>(null);
  showToasts = setAll;
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    // The one that was shown last lies above dialogs that were opened meanwhile.
    if (element.matches(':popover-open')) element.hidePopover();
    element.showPopover();
  }, [all]);
  return (
    <div ref={place} class="toasts" popover="manual" role="status" aria-live="polite">
      {all.map(({ id, tone, text }) => (
        <div key={id} class={`toast ${tone}`}>
          {tone === 'good' ? <CircleCheck size={18} aria-hidden /> : <CircleAlert size={18} aria-hidden />}
          <span>{text}</span>
          <IconButton label="Dismiss" icon={X} onClick={() => dropToast(id)} />
        </div>
      ))}
    </div>
  );
}

// ------------------------------------------------------------------------------------------------------------- buttons

type Work = () => unknown;

/** Runs work once at a time; its error becomes a toast. */
function useBusy(): [boolean, (work: Work) => Promise<void>] {
  const [isBusy, setBusy] = useState(false);
  const run = async (work: Work): Promise<void> => {
    setBusy(true);
    try {
      await work();
    } catch (error) {
      toast(messageOf(error), 'bad');
    } finally {
      setBusy(false);
    }
  };
  return [isBusy, run];
}

interface ButtonProps {
  readonly children: ComponentChildren;
  readonly onClick?: Work;
  readonly icon?: Icon;
  readonly kind?: 'main' | 'plain' | 'danger' | 'quiet';
  readonly submit?: boolean;
  readonly disabled?: boolean;
  readonly autofocus?: boolean;
}

export function Button({ children, onClick, icon: Picture, kind = 'plain', submit, disabled, autofocus }: ButtonProps) {
  const [isBusy, run] = useBusy();
  return (
    <button
      type={submit === true ? 'submit' : 'button'}
      class={`button ${kind}`}
      disabled={isBusy || disabled === true}
      autofocus={autofocus === true}
      {...(onClick === undefined ? {} : { onClick: () => void run(onClick) })}
    >
      {Picture !== undefined && <Picture size={16} aria-hidden />}
      {children}
    </button>
  );
}

export function IconButton({ label, icon: Picture, onClick }: { label: string; icon: Icon; onClick: Work }) {
  const [isBusy, run] = useBusy();
  return (
    <button
      type="button"
      class="button quiet icon"
      aria-label={label}
      title={label}
      disabled={isBusy}
      onClick={() => void run(onClick)}
    >
      <Picture size={16} aria-hidden />
    </button>
  );
}

export interface MenuItem {
  readonly label: string;
  readonly icon?: Icon;
  readonly isDanger?: boolean;
  readonly onSelect: Work;
}

/** A button that opens a list of actions. */
export function Menu({
  label,
  items,
  children,
}: {
  label: string;
  items: readonly MenuItem[];
  children?: ComponentChildren;
}) {
  const [, run] = useBusy();
  const service = useMachine(menu.machine, {
    id: useId(),
    positioning: { placement: 'bottom-end', strategy: 'fixed' },
    onSelect({ value }: { readonly value: string }) {
      const item = items[Number(value)];
      // After the menu has given back the focus: a dialog returns it there.
      if (item !== undefined) setTimeout(() => void run(item.onSelect));
    },
  });
  const api = menu.connect(service, normalizeProps);
  return (
    <>
      <button
        {...api.getTriggerProps()}
        class={`button ${children === undefined ? 'quiet icon' : 'plain'}`}
        {...(children === undefined ? { 'aria-label': label, title: label } : {})}
      >
        {children ?? <Ellipsis size={18} aria-hidden />}
      </button>
      <div {...api.getPositionerProps()} class="floating">
        <ul {...api.getContentProps()} class="menu" aria-label={label}>
          {items.map(({ label: text, icon: Picture, isDanger }, at) => (
            <li key={text} {...api.getItemProps({ value: String(at) })} class={isDanger === true ? 'danger' : ''}>
              {Picture !== undefined && <Picture size={16} aria-hidden />}
              {text}
            </li>
          ))}
        </ul>
      </div>
    </>
  );
}

function CopyButton({ text, label }: { text: string; label: string }) {
  const [isDone, setDone] = useState(false);
  return (
    <IconButton
      label={isDone ? 'Copied' : label}
      icon={isDone ? Check : Copy}
      onClick={async () => {
        await navigator.clipboard.writeText(text);
        setDone(true);
        setTimeout(() => setDone(false), 1_500);
      }}
    />
  );
}

// ------------------------------------------------------------------------------------------------------------- content

export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

const NOTICE_ICONS: Readonly<Record<Tone, Icon>> = {
  good: CircleCheck,
  bad: CircleAlert,
  warn: TriangleAlert,
  info: Info,
  plain: Info,
};

interface NoticeProps {
  readonly tone: Tone;
  readonly title: string;
  readonly children?: ComponentChildren;
  readonly role?: 'alert' | 'status';
}

export function Notice({ tone, title, children, role }: NoticeProps) {
  const Picture = NOTICE_ICONS[tone];
  return (
    <div class={`notice ${tone}`} {...(role === undefined ? {} : { role })}>
      <Picture size={20} aria-hidden />
      <div>
        <p class="strong">{title}</p>
        {children}
      </div>
    </div>
  );
}

interface CardProps {
  readonly title?: string;
  readonly note?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
  readonly flush?: boolean;
}

export function Card({ title, note, actions, children, flush = false }: CardProps) {
  return (
    <section class={`card${flush ? ' flush' : ''}`}>
      {(title !== undefined || actions !== undefined) && (
        <header>
          <div>
            {title !== undefined && <h2>{title}</h2>}
            {note !== undefined && <p class="soft">{note}</p>}
          </div>
          {actions !== undefined && <div class="actions">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

export function Stat({
  name,
  children,
  tone = 'plain',
  note,
}: {
  name: string;
  children: ComponentChildren;
  tone?: Tone;
  note?: ComponentChildren;
}) {
  return (
    <div class="stat">
      <dt>{name}</dt>
      <dd class={tone}>{children}</dd>
      {note !== undefined && <dd class="soft small">{note}</dd>}
    </div>
  );
}

/** The heading of a page. */
/** What changes something: those who may not change it do not see it. */
export function Changes({ children }: { children: ComponentChildren }) {
  return useMayChange() ? children : null;
}

export function Head({
  title,
  note,
  actions,
  back,
}: {
  title: string;
  note?: ComponentChildren;
  actions?: ComponentChildren;
  back?: { href: string; text: string };
}) {
  useEffect(() => {
    document.title = `${title} – Parhelion`;
  }, [title]);
  return (
    <div class="head">
      <div>
        {back !== undefined && (
          <p class="back">
            <a href={back.href}>← {back.text}</a>
          </p>
        )}
        <h1>{title}</h1>
        {note !== undefined && <p class="soft">{note}</p>}
      </div>
      {actions !== undefined && <div class="actions">{actions}</div>}
    </div>
  );
}

export function Empty({
  title,
  children,
  action,
}: {
  title: string;
  children?: ComponentChildren;
  action?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <p class="strong">{title}</p>
      {children !== undefined && <p class="soft">{children}</p>}
      {action}
    </div>
  );
}

/** A path, an address or a dotted name that may break after its separators. */
export const breakable = (text: string): ComponentChildren =>
  text.split(/(?<=[/.?&])/).flatMap((part, at) => (at === 0 ? [part] : [<wbr key={at} />, part]));

export interface Column<T> {
  readonly name: string;
  readonly show: (row: T) => ComponentChildren;
  /** By which rows are sorted and found, and what CSV has of the cell; null: nothing is known. */
  readonly value?: (row: T) => string | number | null;
  readonly isNumber?: boolean;
  /** The cell that names the row; in a card it stands above the others. */
  readonly isTitle?: boolean;
  /** Left out where a table is narrow. */
  readonly isMinor?: boolean;
  /** Buttons and menus that change something: no heading is shown, and viewers do not see them. */
  readonly isActions?: boolean;
}

interface TableProps<T> {
  readonly caption: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string | number;
  readonly empty: ComponentChildren;
  /** On narrow screens the cells of a row follow each other, for lists of many rows: numbers with their label, others without. */
  readonly dense?: boolean;
  /** The rows are all that there are: they can be searched, sorted, turned by pages and saved as a CSV file of this name. */
  readonly tools?: string;
}

const PAGE_ROWS = 50;
/** Fewer rows are seen at a glance. */
const SEARCHED_ROWS = 6;

const textOf = <T,>(columns: readonly Column<T>[], row: T): string =>
  columns
    .map(({ value }) => value?.(row) ?? '')
    .join(' ')
    .toLowerCase();

function compare(a: string | number | null, b: string | number | null): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return typeof a === 'number' && typeof b === 'number'
    ? a - b
    : String(a).localeCompare(String(b), 'en', { numeric: true });
}

/** A text that begins like a formula would be run by a spreadsheet. */
const csvCell = (value: string | number | null): string => {
  const text = value === null ? '' : String(value);
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

function saveCsv<T>(name: string, columns: readonly Column<T>[], rows: readonly T[]): void {
  const shown = columns.filter(({ value }) => value !== undefined);
  const lines = [
    shown.map((column) => column.name),
    ...rows.map((row) => shown.map(({ value }) => value?.(row) ?? null)),
  ];
  const text = lines.map((line) => line.map(csvCell).join(',')).join('\r\n');
  saveText(`${name}.csv`, `${text}\r\n`);
}

/** Saves a file. */
export function saveText(name: string, text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** The rows of a table with search, order and page; all of them without tools. */
function useTools<T>(columns: readonly Column<T>[], rows: readonly T[], tools: string | undefined) {
  const [search, setSearch] = useState('');
  const [order, setOrder] = useState<{ readonly name: string; readonly isDown: boolean } | null>(null);
  const [page, setPage] = useState(0);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found =
    words.length === 0 ? rows : rows.filter((row) => words.every((word) => textOf(columns, row).includes(word)));
  const value = columns.find(({ name }) => name === order?.name)?.value;
  const sorted =
    value === undefined
      ? found
      : [...found].sort((a, b) => {
          const [left, right] = [value(a), value(b)];
          // What is not known stands last in both directions.
          const isTurned = order?.isDown === true && left !== null && right !== null;
          return isTurned ? compare(right, left) : compare(left, right);
        });
  const pages = tools === undefined ? 1 : Math.max(1, Math.ceil(sorted.length / PAGE_ROWS));
  const at = Math.min(page, pages - 1);
  return {
    search,
    setSearch: (text: string) => {
      setSearch(text);
      setPage(0);
    },
    order,
    turn: (name: string) => setOrder((now) => ({ name, isDown: now?.name === name && !now.isDown })),
    sorted,
    shown: tools === undefined ? rows : sorted.slice(at * PAGE_ROWS, (at + 1) * PAGE_ROWS),
    page: at,
    pages,
    setPage,
  };
}

/** A table; on narrow screens each row is a card. The roles are written out, because a browser drops those of tables shown as blocks. */
export function Table<T>({ caption, columns: all, rows, keyOf, empty, dense = false, tools }: TableProps<T>) {
  const mayChange = useMayChange();
  const columns = mayChange ? all : all.filter(({ isActions }) => isActions !== true);
  const list = useTools(columns, rows, tools);
  if (rows.length === 0) return <>{empty}</>;
  const classOf = ({ isNumber, isTitle, isMinor, isActions }: Column<T>) =>
    Object.entries({ number: isNumber, title: isTitle, minor: isMinor, 'row-actions': isActions })
      .flatMap(([name, isSet]) => (isSet === true ? [name] : []))
      .join(' ');
  const headOf = ({ name, value, isActions }: Column<T>) => {
    if (isActions === true) return <span class="hidden">{name}</span>;
    if (tools === undefined || value === undefined) return name;
    const isOwn = list.order?.name === name;
    return (
      <button type="button" class="sort" onClick={() => list.turn(name)}>
        {name}
        <span aria-hidden="true">{isOwn ? (list.order?.isDown === true ? ' ↓' : ' ↑') : ''}</span>
      </button>
    );
  };
  const sortOf = ({ name }: Column<T>) =>
    list.order?.name === name ? (list.order.isDown ? 'descending' : 'ascending') : undefined;
  const table = (
    <table role="table" class={dense ? 'table dense' : 'table'} aria-label={caption}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map((column) => (
            <th key={column.name} role="columnheader" scope="col" class={classOf(column)} aria-sort={sortOf(column)}>
              {headOf(column)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {list.shown.map((row) => (
          <tr key={keyOf(row)} role="row">
            {columns.map((column) => {
              const shown = column.show(row);
              return (
                <td
                  key={column.name}
                  role="cell"
                  class={`${classOf(column)}${shown === '–' ? ' nothing' : ''}`.trim()}
                  data-label={column.name}
                >
                  {shown}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
  if (tools === undefined) return table;
  return (
    <>
      <div class="table-tools">
        {rows.length >= SEARCHED_ROWS && (
          <input
            type="search"
            aria-label={`Search in ${caption}`}
            placeholder="Search"
            spellcheck={false}
            value={list.search}
            onInput={(event) => list.setSearch(event.currentTarget.value)}
          />
        )}
        <Button kind="quiet" icon={Download} onClick={() => saveCsv(tools, columns, list.sorted)}>
          CSV
        </Button>
      </div>
      {list.sorted.length === 0 ? <Empty title="Nothing matches the search" /> : table}
      {list.pages > 1 && (
        <nav class="pages" aria-label={`Pages of ${caption}`}>
          <Button kind="quiet" disabled={list.page === 0} onClick={() => list.setPage(list.page - 1)}>
            Previous page
          </Button>
          <span class="soft">
            {list.page + 1} of {list.pages}
          </span>
          <Button kind="quiet" disabled={list.page + 1 === list.pages} onClick={() => list.setPage(list.page + 1)}>
            Next page
          </Button>
        </nav>
      )}
    </>
  );
}

/** A time as it is said, with the exact one as title. `isPlanned`: of what has yet to happen. */
export function Time({ at, isPlanned = false }: { at: number | string | null; isPlanned?: boolean }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 15_000);
    return () => clearInterval(timer);
  }, []);
  if (at === null) return <>–</>;
  const ms = typeof at === 'string' ? Date.parse(at) : at;
  return (
    <time dateTime={new Date(ms).toISOString()} title={`${utc(ms)} UTC`}>
      {isPlanned ? planned(ms) : ago(ms)}
    </time>
  );
}

/** An id with a button that copies it; `to`: the page that it leads to. */
export function Id({ text, kept, copy = true, to }: { text: string; kept?: number; copy?: boolean; to?: string }) {
  const shown = <code title={text}>{kept === undefined ? text : middle(text, kept)}</code>;
  return (
    <span class="id">
      {to === undefined ? shown : <a href={to}>{shown}</a>}
      {copy && <CopyButton text={text} label="Copy" />}
    </span>
  );
}

/** A text that a stranger wrote, which must not reorder the text around it. */
export function Name({ text }: { text: string }) {
  return <bdi>{text}</bdi>;
}

/** An address that leads to its own page. */
/** A command line, which breaks between its words only. */
export function CommandLine({ line }: { line: string }) {
  return (
    <code class="command">
      {line.split(' ').map((word, at) => (
        <>
          {at > 0 && ' '}
          <span key={at}>{word}</span>
        </>
      ))}
    </code>
  );
}

export function AddressLink({ project, address }: { project: Project; address: string }) {
  return (
    <a class="mono" href={href(['p', project.id, 'look-up', address])} title={address}>
      {middle(address, 6)}
    </a>
  );
}

/** What has a name and a value; those without a value are left out. */
export function Facts({ rows }: { rows: readonly (readonly [name: string, value: ComponentChildren | null])[] }) {
  return (
    <dl class="facts">
      {rows.map(([name, value]) =>
        value === null ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

export function Code({ value, label }: { value: unknown; label: string }) {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  return (
    <div class="code">
      <CopyButton text={text} label={`Copy ${label}`} />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard. */}
      {/* biome-ignore lint/a11y/useSemanticElements: preformatted text, and a region of its own. */}
      <pre tabIndex={0} role="region" aria-label={label}>
        {text}
      </pre>
    </div>
  );
}

/** A choice of one of few. */
export function Segments<T extends string>({
  label,
  options,
  value,
  onChange,
}: {
  label: string;
  options: readonly (readonly [T, string])[];
  value: T;
  onChange: (value: T) => void;
}) {
  const name = useId();
  return (
    <fieldset class="segments">
      <legend class="hidden">{label}</legend>
      {options.map(([key, text]) => (
        <label key={key} class={key === value ? 'chosen' : ''}>
          <input type="radio" name={name} value={key} checked={key === value} onChange={() => onChange(key)} />
          {text}
        </label>
      ))}
    </fieldset>
  );
}

// --------------------------------------------------------------------------------------------------------------- forms

export type Errors = Readonly<Record<string, string>>;

interface FieldProps {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly error?: string | undefined;
  readonly children: (attributes: {
    id: string;
    'aria-describedby'?: string;
    'aria-invalid'?: 'true';
  }) => ComponentChildren;
}

/** A labelled control with a hint and its error. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const note = error ?? hint;
  return (
    <div class={`field${error === undefined ? '' : ' wrong'}`}>
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        ...(note === undefined ? {} : { 'aria-describedby': `${id}-note` }),
        ...(error === undefined ? {} : { 'aria-invalid': 'true' }),
      })}
      {note !== undefined && (
        <p id={`${id}-note`} class={error === undefined ? 'soft small' : 'error small'}>
          {note}
        </p>
      )}
    </div>
  );
}

type InputAttributes = Omit<InputHTMLAttributes<HTMLInputElement>, 'value' | 'onInput'>;
type TextProps = InputAttributes & Omit<FieldProps, 'children'> & { value: string; onValue: (value: string) => void };

export function TextField({ label, hint, error, value, onValue, ...attributes }: TextProps) {
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })} error={error}>
      {(own) => (
        <input {...attributes} {...own} value={value} onInput={(event) => onValue(event.currentTarget.value)} />
      )}
    </Field>
  );
}

export function SelectField({
  label,
  hint,
  value,
  options,
  onValue,
}: {
  label: string;
  hint?: string;
  value: string;
  options: readonly (readonly [value: string, text: string])[];
  onValue: (value: string) => void;
}) {
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      {(own) => (
        <span class="select">
          <select {...own} value={value} onChange={(event) => onValue(event.currentTarget.value)}>
            {options.map(([key, text]) => (
              <option key={key} value={key}>
                {text}
              </option>
            ))}
          </select>
          <ChevronDown size={16} aria-hidden />
        </span>
      )}
    </Field>
  );
}

export function CheckField({
  label,
  hint,
  checked,
  onChecked,
}: {
  label: string;
  hint?: string;
  checked: boolean;
  onChecked: (isOn: boolean) => void;
}) {
  const id = useId();
  return (
    <div class="check">
      <input
        id={id}
        type="checkbox"
        checked={checked}
        {...(hint === undefined ? {} : { 'aria-describedby': `${id}-note` })}
        onChange={(event) => onChecked(event.currentTarget.checked)}
      />
      <div>
        <label htmlFor={id}>{label}</label>
        {hint !== undefined && (
          <p id={`${id}-note`} class="soft small">
            {hint}
          </p>
        )}
      </div>
    </div>
  );
}

type AreaProps = Omit<FieldProps, 'children'> & {
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly rows: number;
  /** A file whose text can be taken instead of typing it. */
  readonly file?: {
    readonly label: string;
    readonly button: string;
    readonly accept: string;
    onText(text: string, name: string): void;
  };
};

/** A text of many lines, typed, pasted or from a file. */
export function TextArea({ label, hint, error, value, onValue, rows, file }: AreaProps) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })} error={error}>
      {(own) => (
        <>
          <textarea
            {...own}
            rows={rows}
            spellcheck={false}
            class="mono"
            value={value}
            onInput={(event) => onValue(event.currentTarget.value)}
          />
          {file !== undefined && (
            <>
              <input
                ref={input}
                type="file"
                class="hidden"
                aria-label={file.label}
                tabIndex={-1}
                accept={file.accept}
                onChange={async (event) => {
                  const chooser = event.currentTarget;
                  const [chosen] = chooser.files ?? [];
                  if (chosen === undefined) return;
                  file.onText(await chosen.text(), chosen.name);
                  // Without this, choosing the same file again fires no event.
                  chooser.value = '';
                }}
              />
              <span>
                <Button icon={Upload} onClick={() => input.current?.click()}>
                  {file.button}
                </Button>
              </span>
            </>
          )}
        </>
      )}
    </Field>
  );
}

/** A form that looks for one thing. `problemOf`: why a text cannot be what is looked for; undefined where it can. */
export function SearchForm({
  label,
  submit,
  first,
  problemOf,
  onSearch,
}: {
  label: string;
  submit: string;
  first: string;
  problemOf: (text: string) => string | undefined;
  onSearch: (text: string) => void;
}) {
  const [text, setText] = useState(first);
  const [error, setError] = useState<string>();
  return (
    <Card>
      <form
        class="search"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          const wanted = text.trim();
          const problem = problemOf(wanted);
          setError(problem);
          if (problem === undefined) onSearch(wanted);
        }}
      >
        <TextField
          label={label}
          type="search"
          value={text}
          error={error}
          autoComplete="off"
          autoCapitalize="off"
          spellcheck={false}
          onValue={setText}
        />
        <Button submit kind="main" icon={Search}>
          {submit}
        </Button>
      </form>
    </Card>
  );
}

const SHOWN_CHOICES = 60;

/** Several of many names, found by typing. */
export function PickField({
  label,
  hint,
  error,
  options,
  value,
  onValue,
}: {
  label: string;
  hint?: string;
  error?: string | undefined;
  options: readonly string[];
  value: readonly string[];
  onValue: (value: string[]) => void;
}) {
  const [typed, setTyped] = useState('');
  const found = useMemo(
    () => options.filter((name) => name.toLowerCase().includes(typed.trim().toLowerCase())).slice(0, SHOWN_CHOICES),
    [options, typed],
  );
  const collection = useMemo(() => combobox.collection({ items: found }), [found]);
  const service = useMachine(combobox.machine, {
    id: useId(),
    collection,
    multiple: true,
    value: [...value],
    inputValue: typed,
    openOnClick: true,
    selectionBehavior: 'clear',
    positioning: { sameWidth: true, strategy: 'fixed' },
    onInputValueChange: (details: { readonly inputValue: string }) => setTyped(details.inputValue),
    onValueChange: (details: { readonly value: string[] }) => onValue(details.value),
  });
  const api = combobox.connect(service, normalizeProps);
  const note = error ?? hint;
  const noteId = useId();
  return (
    <div {...api.getRootProps()} class={`field${error === undefined ? '' : ' wrong'}`}>
      {/* biome-ignore lint/a11y/noLabelWithoutControl: the properties name the control. */}
      <label {...api.getLabelProps()}>{label}</label>
      {value.length > 0 && (
        <ul class="chips" aria-label={`${label}: chosen`}>
          {value.map((name) => (
            <li key={name}>
              {name}
              <button
                type="button"
                aria-label={`Remove ${name}`}
                onClick={() => onValue(value.filter((other) => other !== name))}
              >
                <X size={14} aria-hidden />
              </button>
            </li>
          ))}
        </ul>
      )}
      <div {...api.getControlProps()}>
        <input
          {...api.getInputProps()}
          placeholder="Type to search"
          {...(note === undefined ? {} : { 'aria-describedby': noteId })}
        />
      </div>
      {note !== undefined && (
        <p id={noteId} class={error === undefined ? 'soft small' : 'error small'}>
          {note}
        </p>
      )}
      <div {...api.getPositionerProps()} class="floating">
        <ul {...api.getContentProps()} class="menu choices" aria-label={label}>
          {found.map((name) => (
            <li key={name} {...api.getItemProps({ item: name })}>
              <span>{name}</span>
              {value.includes(name) && <Check size={16} aria-hidden />}
            </li>
          ))}
          {found.length === 0 && <li class="soft">Nothing matches</li>}
        </ul>
      </div>
    </div>
  );
}

// ------------------------------------------------------------------------------------------------------------- dialogs

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  readonly wide?: boolean;
  /** Only its own buttons close it. */
  readonly stays?: boolean;
}

/** A modal dialog of the browser: it keeps the focus, closes with Escape and lies above everything, also above other dialogs. */
export function Dialog({ title, onClose, children, wide = false, stays = false }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={`dialog${wide ? ' wide' : ''}`}
      aria-labelledby={id}
      onCancel={(event) => {
        if (event.target !== element.current) return;
        event.preventDefault();
        if (!stays) onClose();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        {!stays && <IconButton label="Close" icon={X} onClick={onClose} />}
      </header>
      {children}
    </dialog>
  );
}

interface FormProps {
  readonly children: ComponentChildren;
  readonly submit: string;
  readonly onSubmit: () => unknown;
  readonly onCancel?: () => void;
  readonly isDanger?: boolean;
  /** Said above the buttons: an error that belongs to no field. */
  readonly error?: string | undefined;
}

/** The body of a dialog with its buttons. Errors of `onSubmit` are shown in it. */
export function Form({ children, submit, onSubmit, onCancel, isDanger = false, error }: FormProps) {
  const [isBusy, setBusy] = useState(false);
  const [failed, setFailed] = useState<string | null>(null);
  const said = error ?? failed;
  return (
    <form
      noValidate
      onSubmit={async (event) => {
        event.preventDefault();
        const form = event.currentTarget;
        setBusy(true);
        setFailed(null);
        try {
          await onSubmit();
        } catch (problem) {
          setFailed(messageOf(problem));
        } finally {
          setBusy(false);
          setTimeout(() => form.querySelector<HTMLElement>('[aria-invalid=true]')?.focus());
        }
      }}
    >
      <div class="fields">{children}</div>
      {said !== null && <Notice tone="bad" title={said} role="alert" />}
      <footer>
        {onCancel !== undefined && <Button onClick={onCancel}>Cancel</Button>}
        <Button submit kind={isDanger ? 'danger' : 'main'} disabled={isBusy}>
          {submit}
        </Button>
      </footer>
    </form>
  );
}

interface ConfirmProps {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly submit: string;
  readonly onConfirm: () => unknown;
  readonly onClose: () => void;
}

export function Confirm({ title, children, submit, onConfirm, onClose }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <Form
        submit={submit}
        isDanger
        onCancel={onClose}
        onSubmit={async () => {
          await onConfirm();
          onClose();
        }}
      >
        {children}
      </Form>
    </Dialog>
  );
}

/** A secret that is shown only once. */
export function SecretDialog({
  title,
  what,
  secret,
  onClose,
}: {
  title: string;
  what: string;
  secret: string;
  onClose: () => void;
}) {
  return (
    <Dialog title={title} onClose={onClose} stays>
      <div class="fields">
        <p>{what} It is shown only once: store it now.</p>
        <div class="secret">
          <code>{secret}</code>
          <CopyButton text={secret} label="Copy the secret" />
        </div>
      </div>
      <footer>
        <Button kind="main" onClick={onClose} autofocus>
          I have stored it
        </Button>
      </footer>
    </Dialog>
  );
}
