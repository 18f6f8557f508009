const NAME = 'parhelion_session';

/** The token in a Cookie header; null when there is none, or more than one. */
export function readCookie(header: string | string[] | undefined): string | null {
  if (typeof header !== 'string') return null;
  const values = header.split(';').flatMap((part) => {
    const [name, value] = part.trim().split('=', 2);
    return name === NAME && value !== undefined ? [value] : [];
  });
  return values.length === 1 ? (values[0] as string) : null;
}

/** Value of Set-Cookie. No script can read it, and no other site's page sends it along. `token` empty: takes it back. */
export function writeCookie(token: string, secure: boolean): string {
  const end = token === '' ? '; Max-Age=0' : '';
  return `${NAME}=${token}; Path=/dashboard; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}${end}`;
}
