/* Dragonfly: groups of chassis of routers. In a group a router is joined to those of its chassis
 * and to those of its column; each two groups are joined by cables, which are dealt out to the
 * routers of either in turn. A way is minimal, or goes by a group that is drawn (Valiant), or by
 * the better of both (UGAL). Links: those of routers inside their groups, those between groups,
 * and two of each place, up and down. */
#include "network/topology_state.h"

static uint32_t channels(const pw_dragonfly *fly) { return (fly->groups - 1) * fly->group_cables; }

static bool read_routing(pw_dragonfly *fly, const char *text)
{
    static const char *const names[] = {";minimal", ";valiant", ";ugal"};
    for (uint32_t i = 0; *text && i < 3; i++) {
        const char *name = names[i];
        const char *at = text;
        while (*name && *at == *name) name++, at++;
        if (*name || *at) continue;
        fly->routing = (enum pw_dragonfly_routing)i;
        return true;
    }
    return !*text;
}

static bool read_pair(const char **text, uint32_t *a, uint32_t *b)
{
    uint32_t both[2];
    if (pw_topology_numbers(text, ',', both, 2) != 2 || *(*text)++ != ';') return false;
    *a = both[0];
    *b = both[1];
    return true;
}

static bool read_fly(pw_topology *topology, const char *text)
{
    pw_dragonfly *fly = &topology->dragonfly;
    if (!read_pair(&text, &fly->groups, &fly->group_cables) ||
        !read_pair(&text, &fly->chassis, &fly->chassis_cables) ||
        !read_pair(&text, &fly->routers, &fly->router_cables) ||
        pw_topology_numbers(&text, ',', &fly->nodes, 1) != 1 || !read_routing(fly, text))
        return false;
    const uint32_t sides[] = {fly->groups, fly->chassis, fly->routers, fly->nodes};
    topology->num_places = pw_topology_product(sides, 4);
    topology->num_routers = pw_topology_product(sides, 3);
    fly->per_group = fly->chassis * fly->routers;
    fly->locals =
        (fly->routers - 1) * fly->router_cables + (fly->chassis - 1) * fly->chassis_cables;
    const uint64_t locals = (uint64_t)topology->num_routers * fly->locals;
    const uint64_t globals = (uint64_t)fly->groups * channels(fly);
    if (topology->num_places == UINT32_MAX || locals + globals > PW_TOPOLOGY_PLACES_MAX * 64ull)
        return false;
    fly->first_global = (uint32_t)locals;
    fly->first_inject = (uint32_t)(locals + globals);
    topology->num_links = fly->first_inject + 2 * topology->num_places;
    topology->per_board = fly->nodes;
    topology->num_ways = PW_VARIANTS_MAX;
    return true;
}

/* To a router of the same chassis, or of the same column. */
static uint32_t local_link(const pw_dragonfly *fly, uint32_t from, uint32_t to, uint32_t key)
{
    const uint32_t first = from * fly->locals;
    const uint32_t mine = from % fly->routers, theirs = to % fly->routers;
    if (mine != theirs)
        return first + (theirs - (theirs > mine)) * fly->router_cables + key % fly->router_cables;
    const uint32_t my_chassis = from / fly->routers % fly->chassis;
    const uint32_t chassis = to / fly->routers % fly->chassis;
    return first + (fly->routers - 1) * fly->router_cables +
           (chassis - (chassis > my_chassis)) * fly->chassis_cables + key % fly->chassis_cables;
}

/* Inside a group, along the chassis first. */
static uint32_t walk_group(const pw_dragonfly *fly, uint32_t from, uint32_t to, uint32_t key,
                           uint32_t *links)
{
    uint32_t num_links = 0;
    const uint32_t corner = from - from % fly->routers + to % fly->routers;
    if (corner != from) links[num_links++] = local_link(fly, from, corner, key);
    if (corner != to) links[num_links++] = local_link(fly, corner, to, key);
    return num_links;
}

/* Which of the channels of a group leads to another one. */
static uint32_t channel_to(const pw_dragonfly *fly, uint32_t from, uint32_t to, uint32_t key)
{
    const uint32_t ahead = (to + fly->groups - from - 1) % fly->groups;
    return ahead * fly->group_cables + key % fly->group_cables;
}

static uint32_t router_of_channel(const pw_dragonfly *fly, uint32_t group, uint32_t channel)
{
    return group * fly->per_group + channel % fly->per_group;
}

/* From a router to the first one of another group; *router becomes that. */
static uint32_t walk_to_group(const pw_dragonfly *fly, uint32_t *router, uint32_t group,
                              uint32_t key, uint32_t *links)
{
    const uint32_t mine = *router / fly->per_group;
    const uint32_t channel = channel_to(fly, mine, group, key);
    uint32_t num_links =
        walk_group(fly, *router, router_of_channel(fly, mine, channel), key, links);
    links[num_links++] = fly->first_global + mine * channels(fly) + channel;
    *router = router_of_channel(fly, group, channel_to(fly, group, mine, key));
    return num_links;
}

/* Between routers, by group `over` when that is another one than both. */
static uint32_t walk(const pw_dragonfly *fly, uint32_t from, uint32_t to, uint32_t over,
                     uint32_t key, uint32_t *links)
{
    const uint32_t target = to / fly->per_group;
    uint32_t num_links = 0;
    if (over != from / fly->per_group && over != target)
        num_links += walk_to_group(fly, &from, over, key, links);
    if (from / fly->per_group != target)
        num_links += walk_to_group(fly, &from, target, key, links + num_links);
    return num_links + walk_group(fly, from, to, key, links + num_links);
}

/* What waits on a way. Links have room for any backlog, so that a full link far away is not felt at
 * the first one, as it would be where buffers are short: all of the way counts. */
static int64_t waiting_ns(const pw_route_wish *wish, const uint32_t *links, uint32_t num_links)
{
    int64_t sum_ns = 0;
    for (uint32_t i = 0; wish->backlog && i < num_links; i++)
        sum_ns += wish->backlog(wish->context, links[i]);
    return sum_ns;
}

static uint32_t drawn_group(const pw_dragonfly *fly, const pw_route_wish *wish)
{
    const uint64_t ends = (uint64_t)wish->from << 32 | wish->to;
    return (uint32_t)(pw_topology_mix(pw_topology_mix(ends + wish->variant) + wish->salt) %
                      fly->groups);
}

static uint32_t route_fly(const pw_topology *topology, const pw_route_wish *wish, uint32_t *links)
{
    const pw_dragonfly *fly = &topology->dragonfly;
    const uint32_t from = wish->from / fly->nodes, to = wish->to / fly->nodes;
    const uint32_t key = wish->to + wish->variant, home = from / fly->per_group;
    const bool is_local = home == to / fly->per_group;
    uint32_t *way = links + 1, other[PW_WAY_MAX], num_links = 0;
    links[0] = fly->first_inject + 2 * wish->from;
    num_links = walk(fly, from, to, home, key, way);
    if (fly->routing != PW_DRAGONFLY_MINIMAL && !is_local) {
        const uint32_t num_other = walk(fly, from, to, drawn_group(fly, wish), key, other);
        const bool is_better = waiting_ns(wish, way, num_links) * num_links >
                               waiting_ns(wish, other, num_other) * num_other;
        if (fly->routing == PW_DRAGONFLY_VALIANT || is_better) {
            for (uint32_t i = 0; i < num_other; i++) way[i] = other[i];
            num_links = num_other;
        }
    }
    way[num_links] = fly->first_inject + 2 * wish->to + 1;
    return num_links + 2;
}

/* The routers that are joined by the number-th link of one inside its group. */
static void link_inside(const pw_dragonfly *fly, uint32_t from, uint32_t number,
                        pw_topology_link *out)
{
    const uint32_t num_green = (fly->routers - 1) * fly->router_cables;
    const uint32_t mine = from % fly->routers, chassis = from / fly->routers % fly->chassis;
    if (number < num_green) {
        const uint32_t other = number / fly->router_cables;
        out->target = from - mine + other + (other >= mine);
        out->cable = number % fly->router_cables;
    } else {
        const uint32_t other = (number - num_green) / fly->chassis_cables;
        const uint32_t its = other + (other >= chassis);
        out->target = from + its * fly->routers - chassis * fly->routers;
        out->cable = (number - num_green) % fly->chassis_cables;
    }
}

static void link_of_fly(const pw_topology *topology, uint32_t link, pw_topology_link *out)
{
    const pw_dragonfly *fly = &topology->dragonfly;
    *out = (pw_topology_link){.tier = PW_TIER_BETWEEN};
    if (link < fly->first_global) {
        out->source = link / fly->locals;
        link_inside(fly, out->source, link % fly->locals, out);
    } else if (link < fly->first_inject) {
        const uint32_t group = (link - fly->first_global) / channels(fly);
        const uint32_t channel = (link - fly->first_global) % channels(fly);
        const uint32_t ahead = channel / fly->group_cables;
        const uint32_t other = (group + ahead + 1) % fly->groups;
        out->cable = channel % fly->group_cables;
        out->source = router_of_channel(fly, group, channel);
        out->target = router_of_channel(fly, other, channel_to(fly, other, group, out->cable));
    } else {
        const uint32_t place = (link - fly->first_inject) / 2;
        const bool is_up = (link - fly->first_inject) % 2 == 0;
        const uint32_t router = place / fly->nodes, node = topology->num_routers + place;
        out->source = is_up ? node : router;
        out->target = is_up ? router : node;
    }
}

const pw_topology_kind pw_topology_dragonfly = {
    read_fly, route_fly, link_of_fly,
    "dragonfly:GROUPS,CABLES;CHASSIS,CABLES;ROUTERS,CABLES;NODES, then ;minimal, ;valiant or "
    ";ugal, as in dragonfly:9,2;2,1;4,1;2;ugal",
    NULL};
