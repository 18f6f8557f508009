import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { hookCall, type ShownWebhook } from './api.ts';
import { go, href, useWorld } from './place.ts';
import { useLoad } from './ui.tsx';

export interface PaletteCommand {
  readonly name: string;
  /** What kind of thing it leads to. */
  readonly kind: string;
  /** Further words by which it is found. */
  readonly words?: string;
  readonly path: readonly string[];
}

const MAX_SHOWN = 12;
/** An address, a signature, or a name of the name services. */
const LOOKED_UP = /^(?:[1-9A-HJ-NP-Za-km-z]{32,88}|[\w-]+\.\w{2,})$/;

/** A field that leads to every page, project and webhook, and to what the API knows of an address. Opened by Ctrl+K or ⌘K. */
export function Palette({ pages, onClose }: { pages: readonly PaletteCommand[]; onClose: () => void }) {
  const { who, projects, project, hasWebhooks } = useWorld();
  const hooks = useLoad(
    async () =>
      project === null || !hasWebhooks ? [] : await hookCall<readonly ShownWebhook[]>(project.id, 'GET', ''),
    [project?.id],
  );
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const element = useRef<HTMLDialogElement>(null);
  const list = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog?.addEventListener('click', (event) => event.target === dialog && onClose());
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  const all = useMemo(
    (): readonly PaletteCommand[] => [
      ...pages,
      ...(hooks.data ?? []).map(({ webhookID, name, webhookURL }) => ({
        name: name ?? webhookURL,
        kind: 'Webhook',
        words: `${webhookURL} ${webhookID}`,
        path: ['p', project?.id ?? '', 'webhooks', webhookID],
      })),
      ...(who.role !== 'project' ? projects : []).map(({ id, name }) => ({
        name: name === '' ? id : name,
        kind: 'Project',
        words: id,
        path: ['p', id, 'webhooks'],
      })),
    ],
    [pages, hooks.data, projects, project?.id],
  );
  const asked = text.trim();
  const found = [
    ...(project !== null && LOOKED_UP.test(asked)
      ? [{ name: asked, kind: 'Look up', path: ['p', project.id, 'look-up', asked] }]
      : []),
    ...matching(all, asked),
  ].slice(0, MAX_SHOWN);
  const chosen = Math.min(at, found.length - 1);
  const open = (command: PaletteCommand | undefined) => {
    if (command === undefined) return;
    onClose();
    go(command.path);
  };
  const move = (event: KeyboardEvent) => {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
    event.preventDefault();
    const step = event.key === 'ArrowDown' ? 1 : -1;
    if (found.length > 0) setAt((chosen + step + found.length) % found.length);
  };
  return (
    // Not `onClose`: that event comes later, when a next one may be open.
    <dialog
      ref={element}
      class="palette"
      aria-label="Go to"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          open(found[chosen]);
        }}
      >
        <input
          // In a field of type search, Escape would first empty it.
          type="text"
          role="combobox"
          aria-label="Page, webhook, project, address or signature"
          aria-autocomplete="list"
          aria-expanded={found.length > 0}
          aria-controls={list}
          {...(found.length > 0 ? { 'aria-activedescendant': `${list}-${chosen}` } : {})}
          placeholder="Page, webhook, project, address or signature"
          spellcheck={false}
          autoFocus
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={move}
        />
      </form>
      <div role="listbox" id={list} aria-label="Found">
        {found.map((command, index) => (
          <a
            key={`${command.kind} ${command.path.join('/')}`}
            id={`${list}-${index}`}
            role="option"
            aria-selected={index === chosen}
            tabIndex={-1}
            href={href(command.path)}
            onClick={onClose}
          >
            <span>{command.name}</span>
            <span class="soft small">{command.kind}</span>
          </a>
        ))}
      </div>
      {found.length === 0 && (
        <p class="soft" role="status">
          Nothing has this name.
        </p>
      )}
    </dialog>
  );
}

/** Commands that have all words, those whose name begins with the text first. */
function matching(commands: readonly PaletteCommand[], text: string): readonly PaletteCommand[] {
  const wanted = text.toLowerCase();
  const words = wanted.split(/\s+/);
  const isFound = ({ name, kind, words: more = '' }: PaletteCommand) => {
    const inside = `${name} ${kind} ${more}`.toLowerCase();
    return words.every((word) => inside.includes(word));
  };
  const begins = ({ name }: PaletteCommand) => (name.toLowerCase().startsWith(wanted) ? 0 : 1);
  return commands.filter(isFound).sort((a, b) => begins(a) - begins(b));
}

/** Whether the palette is open; Ctrl+K and ⌘K open and close it. */
export function usePalette(): readonly [isOpen: boolean, setOpen: (isOpen: boolean) => void] {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey)
        return;
      event.preventDefault();
      setOpen((before) => !before);
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
  return [isOpen, setOpen];
}
