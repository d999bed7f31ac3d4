import { drawnFaults } from './fault-mix.ts'

/**
 * Rare paths that a run over many seeds has to take: a simulator that never gets there proves nothing about them. Each is
 * a count of the run, with what it shows.
 */
export const sometimes: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    drawnFaults.map((kind) => [`fault: ${kind}`, 'a fault that seeds draw met somebody it could harm']),
  ),
  'crash that lost unsynced writes': 'a process dies with writes under way, and they are gone',
  'death between two effects': 'a process dies instead of its next write, frame or request',
  'power cut that shortened a journal': 'a keeper wrote what its disk never had',
  'keeper that waited for room on its disk': 'a full disk stops the reading of a pipe and loses nothing',
  'link broken with frames under way': 'a first part of what was sent arrives',
  'connection given up while nothing came through': 'a partition outlasts a connection',
  'stop racing an end': 'a stop meets the end of its turn',
  'message racing an end': 'a message meets the end of its turn',
  'adapter killed between reply and client': 'a session dies with a reply that its hub has given out',
  'node restarted under its keeper': 'an agent goes on while its node is another process',
  'keeper finished while its node was down': 'a result waits for a node that was not there',
  'keeper killed while its node was down': 'a node finds that a keeper is gone',
  'call cancelled': 'a client gives up a call, before its answer or after it',
  'disk error': 'a process ends because its disk fails',
  'decided: completed': 'turns end well',
  'decided: failed': 'programs crash and keepers are killed',
  'decided: stopped': 'turns are stopped',
  'decided: node_lost': 'a turn is counted lost',
  'decided: node_lost, silent': 'a machine is silent for too long, and its turn counts as lost',
  'decided: completed, late': 'a turn that counted as lost had ended after all',
  'decided: attempt back': 'a machine comes back with an attempt that counted as lost',
  'decided: withdrawn': 'a reply of which nothing was written is taken back',
  'decided: doubted': 'a reply may have been read, and what it carried is named',
  'decided: attempt declined': 'a node takes an attempt not on',
  'sent: ended, again': 'an end is told a second time, and counts once',
  'sent: claim, again': 'a claim is sent a second time, and launches once',
  'sent: collected, again': 'a result is collected twice',
  'sent: void': 'a command is taken back before it went out',
}

/** Of the paths above those that were never taken. */
export function neverTaken(counts: ReadonlyMap<string, number>): readonly string[] {
  return Object.keys(sometimes).filter((name) => (counts.get(name) ?? 0) === 0)
}
