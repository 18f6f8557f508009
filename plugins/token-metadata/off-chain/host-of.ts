import { type Gateways, locate } from './locate.ts';

/** The host that is asked first for a uri; an empty text where none is. */
export function hostOf(uri: string, gateways: Gateways): string {
  const location = locate(uri, gateways);
  const url = location?.kind === 'web' ? (location.urls[0] ?? '') : '';
  return URL.canParse(url) ? new URL(url).host : '';
}
