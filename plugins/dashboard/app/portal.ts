import { callAsPortal, openLink, session, type Who } from './api.ts';

/** This page is the portal, in a frame of somebody else's page. What it keeps may be refused by the browser, and is then gone after a reload. */
export const isPortal = location.pathname === '/dashboard/portal';

const KEPT = 'portal-session';
/** Of the link that led here, until it is opened or refused. */
let token = isPortal ? new URLSearchParams(location.hash.slice(1)).get('token') : null;
if (isPortal) callAsPortal('');

/** Who came by a link, or was here before a reload; null: nobody. */
export async function visitor(): Promise<Who | null> {
  if (token !== null) {
    // When it throws, the daemon did not answer: the link still works.
    const opened = await openLink(token);
    token = null;
    history.replaceState(null, '', location.pathname + location.search);
    if (opened === null) return null;
    callAsPortal(opened);
    keep(opened);
  } else callAsPortal(recall());
  return await session();
}

/** Where the browser refuses to keep it. */
let held = '';

function keep(opened: string): void {
  held = opened;
  try {
    sessionStorage.setItem(KEPT, opened);
  } catch {
    // It ends with the page.
  }
}

function recall(): string {
  try {
    return sessionStorage.getItem(KEPT) ?? held;
  } catch {
    return held;
  }
}
