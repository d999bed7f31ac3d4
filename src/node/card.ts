import type { NodeCard } from '../core/model.ts'
import type { DriverProbe } from '../ports/agent-driver.ts'
import type { NodeSettings } from './ports.ts'

/** What the node tells every hub about itself: what its owner set, and what was found on the machine. */
export function cardOf(settings: NodeSettings, probe: DriverProbe): NodeCard {
  const unavailable = unavailability(settings, probe)
  return {
    description: settings.description,
    labels: settings.labels,
    capabilities: settings.capabilities,
    offers: settings.offers,
    maxAgents: settings.maxAgents,
    allows: { allTools: settings.allowAllTools, monitors: false, repos: [] },
    credential: settings.credential,
    version: settings.version,
    os: settings.os,
    arch: settings.arch,
    ...(probe.type === 'present' ? { claudeVersion: probe.version } : {}),
    ...(settings.lostAfterMs === undefined ? {} : { lostAfterMs: settings.lostAfterMs }),
    ...(unavailable === undefined ? {} : { unavailable }),
  }
}

function unavailability(settings: NodeSettings, probe: DriverProbe): NodeCard['unavailable'] {
  if (probe.type === 'absent') return { reason: probe.reason, message: probe.message }
  if (settings.credential !== 'none') return undefined
  return { reason: 'not_logged_in', message: 'The node has no credential for the agent program.' }
}
